#!/usr/bin/env python3
"""Writes a made-up access log to standard output, as nginx writes it with the `log_format` of docs/operate/traces.md.

Six minutes of a help desk: every prompt begins with the house rules (6,000 characters), then comes the manual of one of
300 products (12,000), then a question. It exists so that docs/operate/will-it-pay.md can be followed without
a log. Every run writes the same bytes.

    python3 examples/access_log.py > llm.log
"""

import json
import random
import sys

PRODUCTS = 300
REQUESTS = 2400
REQUESTS_PER_S = 6.0
RULES_CHARACTERS = 6_000
MANUAL_CHARACTERS = 12_000
QUESTION_CHARACTERS = 120
# The second product is asked about 2^-0.7 times as often as the first, and so on.
ZIPF_ALPHA = 0.7
STARTED_S = 1_767_261_600.0

_SUBJECTS = [
    *("the pump", "a filter", "the display", "the door", "each hose"),
    *("the battery", "a sensor", "the lid", "the motor", "this valve"),
]
_VERBS = [
    *("stops", "starts", "is cleaned", "is replaced", "turns"),
    *("opens", "closes", "warms up", "is checked", "is locked"),
]
_WHEN = [
    *("after ten minutes", "before use", "once a month", "when the light is red"),
    *("at any time", "below freezing", "if it is wet"),
]


def sentence(chance: random.Random) -> str:
    """A sentence of a manual."""
    number = chance.randrange(1, 1000)
    return f"{number}: {chance.choice(_SUBJECTS)} {chance.choice(_VERBS)} {chance.choice(_WHEN)}."


def text(chance: random.Random, characters: int) -> str:
    """So many characters of sentences."""
    out = ""
    while len(out) < characters:
        out += sentence(chance) + " "
    return out[:characters]


def rows(chance: random.Random) -> list[dict[str, object]]:
    """The log's rows, by when the answers ended."""
    rules = text(chance, RULES_CHARACTERS)
    manuals = [text(chance, MANUAL_CHARACTERS) for _ in range(PRODUCTS)]
    weights = [1 / (rank + 1) ** ZIPF_ALPHA for rank in range(PRODUCTS)]
    came_s, out = STARTED_S, []
    for number in range(REQUESTS):
        came_s += chance.expovariate(REQUESTS_PER_S)
        manual = chance.choices(manuals, weights)[0]
        messages = [
            {"role": "system", "content": rules + manual},
            {"role": "user", "content": f"What does this mean? {text(chance, QUESTION_CHARACTERS)}"},
        ]
        first_s, whole_s = 0.1 + chance.random(), 4 + 4 * chance.random()
        out.append(
            {
                "ts": round(came_s + whole_s, 3),
                "id": f"{number:032x}",
                "uri": "/v1/chat/completions",
                "status": 200,
                "rt": round(whole_s, 3),
                "up": f"10.0.0.{number % 8 + 1}:8000",
                "ttfb": f"{first_s:.3f}",
                "sid": "",
                "body": json.dumps({"model": "help", "messages": messages, "max_tokens": 256}),
            }
        )
    return sorted(out, key=lambda row: row["ts"])


def main() -> None:
    """Writes a line a request."""
    for row in rows(random.Random(1)):
        sys.stdout.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    main()
