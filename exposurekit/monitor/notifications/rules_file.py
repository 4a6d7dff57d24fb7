"""Read a rules file: bounded in size, plain YAML values only, and never quoted in an error."""

import os
import stat
from pathlib import Path
from typing import Any

import yaml

from exposurekit.errors import ConfigurationError

BYTES_MAX = 1 << 18
NUMBER_MAX = 40  # characters of a number
# O_NONBLOCK: do not wait for a pipe that nobody writes to. Windows lacks it and needs O_BINARY.
_FLAGS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
_NUMBERS = ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float")


class _Alias(yaml.YAMLError):
    """An alias: a few bytes of nested aliases can expand to more than fits in memory."""

    def __init__(self, mark: yaml.Mark) -> None:
        super().__init__()
        self.problem_mark = mark


class _Loader(yaml.SafeLoader):
    """Loads plain values only; errors name the line, never the value."""

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            raise _Alias(self.peek_event().start_mark)  # type: ignore[no-untyped-call]
        return super().compose_node(parent, index)

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:  # noqa: FBT001, FBT002  PyYAML's own
        if node.tag in _NUMBERS and len(node.value) > NUMBER_MAX:
            raise yaml.MarkedYAMLError(problem_mark=node.start_mark)
        try:
            return super().construct_object(node, deep)
        except yaml.YAMLError:
            raise
        except Exception:  # noqa: BLE001  constructors raise anything, with the value in the message
            raise yaml.MarkedYAMLError(problem_mark=node.start_mark) from None


def read_text(path: Path) -> str:
    """Read a file that only its owner may read.

    Raises:
        ConfigurationError: It cannot be read, others can read it, or it is too large.
    """
    try:
        with os.fdopen(os.open(path, _FLAGS), "rb") as stream:
            mode = os.fstat(stream.fileno()).st_mode
            if not stat.S_ISREG(mode):
                raise ConfigurationError(f"{path} is not a file: name a YAML file with rules")
            if os.name == "posix" and mode & 0o077:
                raise ConfigurationError(
                    f"{path} can be read by others, and addresses contain passwords: run chmod 600 on it"
                )
            text = stream.read(BYTES_MAX + 1)
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be read: {error.strerror}") from None
    if len(text) > BYTES_MAX:
        raise ConfigurationError(f"{path} is too large: rules may have at most {BYTES_MAX:,} bytes")
    return text.decode("utf-8", "replace")


def parse_yaml(text: str, source: str) -> Any:
    """Parse a YAML text; `source` names it in errors.

    Raises:
        ConfigurationError: It is not YAML, or has an alias; the message names the line.

    >>> from exposurekit.monitor.notifications.rules_file import parse_yaml
    >>> parse_yaml("rules: []", "the rules")
    {'rules': []}
    """
    loader = None
    try:
        loader = _Loader(text)
        return loader.get_single_data()
    except _Alias as error:
        raise ConfigurationError(
            f"{source}{_line(error, text)}: YAML aliases are not supported; write the value out"
        ) from None
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise ConfigurationError(f"{source}{_line(error, text)}: not valid YAML") from None
    finally:
        if loader is not None:
            loader.dispose()


def _line(error: Exception, text: str) -> str:
    """Name the line of a YAML error; an error that shows at the end, such as an unclosed quote, is where it begins."""
    mark, context = getattr(error, "problem_mark", None), getattr(error, "context_mark", None)
    if mark is None:
        return ""
    is_end = not text[mark.index :].strip()
    return f", line {(context if is_end and context is not None else mark).line + 1}"
