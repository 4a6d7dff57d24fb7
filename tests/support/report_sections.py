"""One section of a report: a whole report also loads the tables of its figures."""

from exposurekit.reports.data import ReportSource
from exposurekit.reports.sections import section_type


def section_alone(name, source, **options):
    """A section of an exposure or a history, with the options of `ReportSource`."""
    made = section_type(name)
    return made.make(ReportSource(source, **options).load({*made.needs, "records", "links"}))


def statements(section):
    """What a section says, above its chart and in its notes."""
    return " ".join([section.text, *section.points])
