"""The text of a file of rules, and the plain values in it: of bounded size, and never quoted in an error."""

import os
import stat
from pathlib import Path
from typing import Any

import yaml

from exposurekit.errors import ConfigurationError

BYTES_MAX = 1 << 18
NUMBER_MAX = 40  # letters of a number
# A pipe that nobody writes to is opened at once. Windows has no such pipes, and a flag of its own.
_FLAGS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
_NUMBERS = ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float")


class _Alias(yaml.YAMLError):
    """Few letters with many aliases say more than any memory holds."""

    def __init__(self, mark: yaml.Mark) -> None:
        super().__init__()
        self.problem_mark = mark


class _Loader(yaml.SafeLoader):
    """Plain values alone; whatever goes wrong with one says on which line, and nothing of it."""

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
        except Exception:  # noqa: BLE001  its constructors raise anything, with the value in it
            raise yaml.MarkedYAMLError(problem_mark=node.start_mark) from None


def read(path: Path) -> str:
    """The text of a file that is for its owner alone.

    Raises:
        ConfigurationError: It cannot be read, others may read it, or it is too long.
    """
    try:
        with os.fdopen(os.open(path, _FLAGS), "rb") as stream:
            mode = os.fstat(stream.fileno()).st_mode
            if not stat.S_ISREG(mode):
                raise ConfigurationError(f"{path} is no file: rules are read from one")
            if os.name == "posix" and mode & 0o077:
                raise ConfigurationError(
                    f"{path} can be read by others, and addresses hold passwords: chmod 600 it"
                )
            text = stream.read(BYTES_MAX + 1)
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be read: {error.strerror}") from None
    if len(text) > BYTES_MAX:
        raise ConfigurationError(f"{path} is too long for rules: {BYTES_MAX:,} bytes are the most")
    return text.decode("utf-8", "replace")


def values(text: str, called: str) -> Any:
    """What a text of YAML says.

    Raises:
        ConfigurationError: It is none, or has an alias; the message names the line.

    >>> from exposurekit.monitor.notifications.rules_file import values
    >>> values("rules: []", "the rules")
    {'rules': []}
    """
    loader = None
    try:
        loader = _Loader(text)
        return loader.get_single_data()
    except _Alias as error:
        raise ConfigurationError(
            f"{called}{_line(error, text)}: aliases are not read here; write it out"
        ) from None
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise ConfigurationError(f"{called}{_line(error, text)}: this is no YAML") from None
    finally:
        if loader is not None:
            loader.dispose()


def _line(error: Exception, text: str) -> str:
    """Where a text is no YAML; what only shows at its end, such as a quote that is not closed, is where that begins."""
    mark, began = getattr(error, "problem_mark", None), getattr(error, "context_mark", None)
    if mark is None:
        return ""
    is_end = not text[mark.index :].strip()
    return f", line {(began if is_end and began is not None else mark).line + 1}"
