"""Writes what is made from another file: the dashboard, and the rules as the object that an operator reads."""

from __future__ import annotations

from pathlib import Path

from k8s.monitoring import dashboard, rules

HERE = Path(__file__).resolve().parent


def files() -> dict[Path, str]:
    """What is made, by where it lies."""
    return {
        HERE / "dashboard.json": dashboard.text(),
        HERE / "prometheus-rule.yaml": rules.as_object((HERE / "alerts.yaml").read_text(encoding="utf-8")),
    }


if __name__ == "__main__":
    for path, text in files().items():
        path.write_text(text, encoding="utf-8")
        print(path)
