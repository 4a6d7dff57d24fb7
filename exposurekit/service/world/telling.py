"""A story told to the service, move by move, through the functions that a scan calls. Invents nothing itself."""

from exposurekit.service.database import Work
from exposurekit.service.findings import discover_link, discover_record
from exposurekit.service.removals import refuse_removal, submit_removal, verify_removal
from exposurekit.service.sightings import Listing, Page, Site
from exposurekit.service.world.sites import WorldSite
from exposurekit.service.world.stories import Finding, Story


async def tell(work: Work, user_id: int, story: Story) -> None:
    """Let everything in the story happen to this user.

    Raises:
        NoSuchUser: Nobody of that id is registered.
    """
    for finding in story.findings:
        await _tell_finding(work, user_id, finding)
    for link in story.links:
        await discover_link(work, user_id, Page(url=link.url, title=link.title, contains=link.contains))


async def _tell_finding(work: Work, user_id: int, finding: Finding) -> None:
    site, listing = site_of(finding.site), _listing_of(finding)
    record_id = 0
    for move in finding.moves:
        match move:
            case "discover":
                record_id = await discover_record(work, user_id, listing, site)
            case "submit":
                await submit_removal(work, record_id, site)
            case "refuse":
                await refuse_removal(work, record_id, site)
            case "gone" | "still listed":
                await verify_removal(work, record_id, site, gone=move == "gone")


def site_of(site: WorldSite) -> Site:
    """What the service knows about a site of the make-believe world."""
    return Site(
        name=site.name,
        guide=site.guide,
        opt_out_procedure=site.opt_out_procedure,
        opt_out_url=site.opt_out_url,
        user_fields_required_for_removal=site.user_fields_required_for_removal,
    )


def _listing_of(finding: Finding) -> Listing:
    return Listing(
        name=finding.name,
        reference_id=finding.reference_id,
        age=finding.age,
        href=finding.href,
        relations=finding.relations,
        aliases=finding.aliases,
        locations=finding.locations,
    )
