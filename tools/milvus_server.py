"""A real Milvus server on this machine for the tests: the package `milvus` in an environment of its own.

    python3 tools/milvus_server.py --set-up              installs it into .milvus/ of the project (once, 120 MB)
    python3 tools/milvus_server.py DATA --port 19530     becomes the server: end it by the id of this process

The package's own starter leaves its server behind when it is ended, so this takes the starter's settings and then
becomes the server itself. Two servers cannot run at once: the store inside of Milvus listens on 2379 and 2380.
"""

import argparse
import importlib
import os
import socket
import subprocess
import sys
import venv
from pathlib import Path
from typing import Any

HOME = Path(__file__).resolve().parents[1] / ".milvus"
PYTHON = HOME / "venv" / "bin" / "python"
PACKAGE = "milvus==2.3.5"
STORE_PORTS = 2379, 2380


def is_set_up() -> bool:
    """Whether the server can be started."""
    return (HOME / "installed").exists()


def set_up() -> None:
    """Install the server, unless it is there."""
    if is_set_up():
        return
    venv.create(HOME / "venv", with_pip=True, clear=True)
    environment = {name: value for name, value in os.environ.items() if name != "PIP_CONSTRAINT"}
    done = subprocess.run([PYTHON, "-m", "pip", "install", "--quiet", PACKAGE], env=environment)
    if done.returncode:
        raise SystemExit(f"{PACKAGE} cannot be installed, as pip says above: it needs Linux or macOS, x86-64 or ARM.")
    (HOME / "installed").write_text(PACKAGE + "\n", encoding="utf-8")


def taken_ports(*ports: int) -> list[int]:
    """Those of the ports that another program listens on."""
    taken: list[int] = []
    for port in ports:
        with socket.socket() as one:
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                one.bind(("127.0.0.1", port))
            except OSError:
                taken.append(port)
    return taken


def become_server(data: Path, port: int, options: dict[str, object]) -> None:
    """Write the settings into DATA and turn this process into the server; does not return."""
    if taken := taken_ports(port, *STORE_PORTS):
        raise SystemExit(
            f"Port {taken[0]} of this machine is taken: one Milvus server runs at a time, with the ports {port}, "
            f"{STORE_PORTS[0]} and {STORE_PORTS[1]}. End the other program, or wait until it has ended."
        )
    milvus: Any = importlib.import_module("milvus")  # of the environment in .milvus

    binaries = HOME / "server"  # unpacked once: 200 MB
    milvus._initialize_data_files(str(binaries))
    config = milvus.MilvusServerConfig(data_dir=str(data), proxy_port=port)
    config.resolve_storage()
    for name, value in options.items():
        config.set(name, value)
    config.resolve()
    metrics, held = config.resolve_port(9091)
    held.close()
    os.chdir(data)
    program = binaries / "bin" / "milvus"
    libraries = ":".join(filter(None, (str(program.parent), os.environ.get("LD_LIBRARY_PATH", ""))))
    environment = {
        **os.environ, "DEPLOY_MODE": "STANDALONE", "METRICS_PORT": str(metrics), "MILVUS_RUN_DIR": str(data / "run"),
        "LD_LIBRARY_PATH": libraries, "DYLD_LIBRARY_PATH": libraries,
    }  # fmt: skip
    os.execve(program, [str(program), "run", "standalone"], environment)


def main() -> None:
    """Install the server or become it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, nargs="?", help="a folder for what the server keeps")
    parser.add_argument("--port", type=int, default=19530)
    parser.add_argument("--set-up", action="store_true", help="install the server into .milvus/ of the project")
    parser.add_argument("--authorization", action="store_true", help="ask for a token: root:Milvus at first")
    parser.add_argument("--tls", type=Path, nargs=2, metavar=("CERTIFICATE", "KEY"), help="speak TLS with these files")
    asked = parser.parse_args()
    if asked.set_up:
        set_up()
        return
    if asked.data is None:
        parser.error("give a folder for what the server keeps, or --set-up")
    if not is_set_up():
        raise SystemExit("The Milvus server is not set up: make test-milvus, or tools/milvus_server.py --set-up")
    if Path(sys.prefix) != PYTHON.parents[1]:
        os.execv(PYTHON, [str(PYTHON), str(Path(__file__).resolve()), *sys.argv[1:]])
    asked.data.mkdir(parents=True, exist_ok=True)
    options: dict[str, object] = {"authorization_enabled": True} if asked.authorization else {}
    if asked.tls is not None:
        certificate, key = (str(file.resolve()) for file in asked.tls)
        options |= {"tls_mode": 1, "server_pem_path": certificate, "server_key_path": key}
    become_server(asked.data.resolve(), asked.port, options)


if __name__ == "__main__":
    main()
