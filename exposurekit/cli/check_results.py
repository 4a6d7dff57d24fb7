"""The result of one check of an installation or a service: `exposurekit doctor` prints all, `service status` its own."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from exposurekit.text.sanitize import plain

OK, WARN, FAIL = "ok", "warn", "fail"
NAMED_MAX = 5  # problems in one message


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The result of one check."""

    check: str
    state: str  # ok, warn (it works, but needs attention) or fail
    message: str
    fix: str = ""
    problems: tuple[str, ...] = ()  # each on a line of its own below

    def __str__(self) -> str:
        fix = f" -> {plain(self.fix)}" if self.fix else ""
        head = f"{self.state:<4}  {self.check}: {plain(self.message)}{fix}"
        return "\n".join((head, *(f"      {plain(problem)}" for problem in self.problems)))


def ok(check: str, message: str) -> CheckResult:
    """Return the result of a check that found nothing."""
    return CheckResult(check, OK, message)


def warn(check: str, message: str, fix: str, problems: Sequence[str] = ()) -> CheckResult:
    """Return the result of a check of something that works, but needs attention."""
    return CheckResult(check, WARN, message, fix, tuple(problems))


def fail(check: str, message: str, fix: str = "", problems: Sequence[str] = ()) -> CheckResult:
    """Return the result of a check that failed."""
    return CheckResult(check, FAIL, message, fix, tuple(problems))


def no_permission(error: PermissionError) -> tuple[str, str]:
    """Say what a command may not read or write, and what to do."""
    return (
        f"{plain(error.filename)}: permission denied",
        "run the command as the file's owner, or change who may use it",
    )


def first(problems: Collection[str]) -> str:
    """Return some problems as one text."""
    more = f", and {len(problems) - NAMED_MAX:,} more" if len(problems) > NAMED_MAX else ""
    return "; ".join([*problems][:NAMED_MAX]) + more
