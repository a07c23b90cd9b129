"""The binary under test: the gateway and the simulated engine, as a user starts them."""

import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import yaml

from support import http
from support.ports import HOST, free_port
from support.process import Process

_RUN_TIMEOUT_S = 15.0


def binary() -> Path:
    """The binary named by `KVROUTE_BIN`. There is no default: a stale build must not pass for the fresh one."""
    named = os.environ.get("KVROUTE_BIN")
    if not named:
        raise RuntimeError("KVROUTE_BIN is not set: give it the path of the kvroute binary to test")
    path = Path(named).resolve()
    if not os.access(path, os.X_OK):
        raise RuntimeError(f"KVROUTE_BIN names {path}, which is not an executable file")
    return path


def run(*arguments: str | os.PathLike) -> subprocess.CompletedProcess[str]:
    """Runs a subcommand that ends by itself, colours off."""
    environment = os.environ | {"NO_COLOR": "1"}
    return subprocess.run(
        [binary(), *arguments], capture_output=True, text=True, timeout=_RUN_TIMEOUT_S, env=environment, check=False
    )


class Engine:
    """A simulated engine, `kvroute engine`; ready inside its `with` block, or after `wait_ready`.

    At speed 1 it is as slow as the hardware that it models.
    """

    def __init__(self, directory: Path, name: str, model: str = "sim", speed: float = 50.0):
        self.port = free_port()
        self.url = f"http://{HOST}:{self.port}"
        self.process = Process(
            name,
            [binary(), "engine", "--listen", f"{HOST}:{self.port}", "--model", model, "--speed", f"{speed:g}"],
            directory,
        )

    def wait_ready(self) -> "Engine":
        """Waits until it answers its health probe."""
        self.process.wait_ready(lambda: http.answers_ok(f"{self.url}/health"))
        return self

    def stop(self) -> None:
        """Ends it."""
        self.process.stop()

    __enter__ = wait_ready

    def __exit__(self, *_: object) -> None:
        self.stop()


class Gateway:
    """A `kvroute serve` with its configuration file; ready inside its `with` block, or after `wait_ready`.

    `config` is the file's content without `listen` and `admin`, which get free ports. `config_path` and
    `write_config` are for reloads.
    """

    def __init__(self, directory: Path, config: dict[str, Any], name: str = "gateway"):
        self.data_port, self.admin_port = free_port(), free_port()
        self.url = f"http://{HOST}:{self.data_port}"
        self.admin_url = f"http://{HOST}:{self.admin_port}"
        self.config_path = directory / f"{name}.yaml"
        self.write_config(config)
        self.process = Process(name, [binary(), "serve", "--config", self.config_path], directory)

    def wait_ready(self) -> "Gateway":
        """Waits until it would accept traffic."""
        self.process.wait_ready(lambda: http.answers_ok(f"{self.admin_url}/readyz"))
        return self

    def write_config(self, config: dict[str, Any]) -> None:
        """Replaces the configuration file; the gateway reads it at SIGHUP."""
        addresses = {"listen": f"{HOST}:{self.data_port}", "admin": f"{HOST}:{self.admin_port}"}
        self.config_path.write_text(yaml.safe_dump(addresses | config, sort_keys=False))

    def reload(self) -> None:
        """Asks it to read its file again; returns before it has."""
        self.process.send_signal(signal.SIGHUP)

    def stop(self) -> None:
        """Ends it."""
        self.process.stop()

    __enter__ = wait_ready

    def __exit__(self, *_: object) -> None:
        self.stop()


def gateway_over(directory: Path, urls: list[str], strategy: str = "prefix_aware", **config: Any) -> Gateway:
    """A gateway with one endpoint, `chat`, over these replicas."""
    return Gateway(directory, {"endpoints": [endpoint("chat", urls, strategy)]} | config)


def endpoint(name: str, replica_urls: list[str], strategy: str = "prefix_aware", **members: Any) -> dict[str, Any]:
    """An endpoint of a configuration, with replicas `NAME-1`, `NAME-2`, ... and the shortest legal prefix length."""
    routing: dict[str, Any] = {"strategy": strategy}
    if strategy == "prefix_aware":
        routing |= {"prefix_length": 1024, "concurrency_threshold": 32}
    return {"name": name, "routing": routing, "replicas": replicas(name, replica_urls)} | members


def replicas(prefix: str, urls: list[str], api: str = "openai") -> list[dict[str, Any]]:
    """Replica entries of a configuration with ids `PREFIX-1`, `PREFIX-2`, ..."""
    return [{"id": f"{prefix}-{number}", "url": url, "api": api} for number, url in enumerate(urls, 1)]
