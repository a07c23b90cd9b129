"use strict";
// Only comfort: everything is readable without it.
const button = (text, act) => {
  const element = document.createElement("button");
  element.textContent = text;
  element.addEventListener("click", () => act(element));
  return element;
};
for (const pre of document.querySelectorAll("pre[data-copy]")) {
  pre.before(button("Copy", async (self) => {
    try {
      await navigator.clipboard.writeText(pre.textContent);
    } catch {
      getSelection().selectAllChildren(pre);
      document.execCommand("copy");
    }
    self.textContent = "Copied";
    setTimeout(() => { self.textContent = "Copy"; }, 1500);
  }));
}
const data = document.getElementById("data");
const place = document.getElementById("save");
if (data && place) {
  place.replaceChildren(button("Save the data as JSON", () => {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([data.textContent], { type: "application/json" }));
    link.download = "kvroute-report.json";
    link.click();
  }));
}
