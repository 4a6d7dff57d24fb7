"""Address policy of outgoing HTTP: which hosts and IP addresses the service may connect to."""

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from exposurekit.errors import ConfigurationError, ExposureError

Network = IPv4Network | IPv6Network


def _networks(*texts: str) -> tuple[Network, ...]:
    return tuple(map(ip_network, texts))


_METADATA_NAMES = {"metadata", "metadata.google.internal", "metadata.goog", "instance-data"}
_FORBIDDEN = _networks(
    "169.254.0.0/16",  # link-local; the metadata of most clouds
    "fe80::/10",  # link-local
    "fd00:ec2::/32",  # metadata: AWS
    "fd20:ce::254/128",  # metadata: Google
    "fd00:c1::a9fe:a9fe/128",  # metadata: Oracle
    "fd00:100::100:200/128",  # metadata: Alibaba
    "fd00:42::42/128",  # metadata: Scaleway
    "fd00:a9fe:a9fe::1/128",  # metadata: Akamai
    "100.100.100.200/32",  # metadata: Alibaba
    "100.96.0.96/32",  # metadata: Volcano Engine
    "168.63.129.16/32",  # metadata: Azure, amid the global ones
    "192.0.0.192/32",  # metadata: Oracle
    # These embed an IPv4 address, some of them in more than one position.
    "64:ff9b:1::/48",  # local NAT64
    "::ffff:0:0:0/96",  # stateless translation
    "2002::/16",  # 6to4
    "2001::/32",  # Teredo
)
# Listed here because `ipaddress.is_global` differs between Python's patch releases.
_NOT_GLOBAL = _networks(
    "0.0.0.0/8",
    "10.0.0.0/8",
    "100.64.0.0/10",  # carrier-grade NAT
    "127.0.0.0/8",
    "172.16.0.0/12",
    "192.0.0.0/24",  # protocol assignments
    "192.0.2.0/24",  # documentation
    "192.88.99.0/24",  # 6to4 relays
    "192.168.0.0/16",
    "198.18.0.0/15",  # benchmarks
    "198.51.100.0/24",  # documentation
    "203.0.113.0/24",  # documentation
    "224.0.0.0/4",  # multicast
    "240.0.0.0/4",  # reserved, and broadcast
    "2001::/23",  # protocol assignments
    "2001:db8::/32",  # documentation
    "3fff::/20",  # documentation
)
_GLOBAL_6 = ip_network("2000::/3")  # all global unicast addresses
_EMBEDS_IPV4 = _networks("::/96", "::ffff:0:0/96", "64:ff9b::/96")

_NAME = re.compile(r"(?:[a-z0-9_-]{1,63}\.)*[a-z0-9_-]{1,63}\.?")
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")
_NAME_MAX = 254

NOT_PUBLIC = "the address is forbidden: it is not public"


class ForbiddenAddress(ExposureError):
    """The address is not a plain http(s) URL, or not public.

    An operator can allow networks, but never link-local ones or a cloud's metadata service.
    """


class NotPublic(ForbiddenAddress):
    """The host is neither in a public network nor in one that the operator allowed."""

    def __init__(self) -> None:
        super().__init__(NOT_PUBLIC)


def parse_networks(allowed_networks: Iterable[str]) -> tuple[Network, ...]:
    """Parse the networks that an operator allows; raises `ConfigurationError` if one is not in CIDR form."""
    try:
        return _networks(*allowed_networks)
    except ValueError:
        pass
    raise ConfigurationError(
        "a network must be in CIDR form, such as 10.0.0.0/8 or fd00::/8, without host bits"
    )


def check_host(host: str) -> None:
    """Check the spelling of a host: a name or an IP address. `check_addresses` checks where it leads.

    The host is as used for the connection: lower case, ASCII, an IPv6 address without brackets.

    Raises:
        ForbiddenAddress: It is a metadata service, or an ambiguous spelling of an address.
    """
    if literal(host) is not None:
        return
    name = host.removesuffix(".")
    if name in _METADATA_NAMES:
        raise ForbiddenAddress("the address is forbidden: it is a metadata service")
    # A name cannot end in a number: that is an IPv4 address in a spelling that programs read differently.
    is_ambiguous = (
        len(host) > _NAME_MAX or not _NAME.fullmatch(host) or _NUMBER.fullmatch(name.rpartition(".")[2])
    )
    if is_ambiguous:
        raise ForbiddenAddress("the address is forbidden: its host is not in plain form")


def literal(host: str) -> IPv4Address | IPv6Address | None:
    """Parse a host as an IP address; None for a name."""
    if ":" not in host and not host[-1:].isdigit():  # a quick answer for most names
        return None
    try:
        return ip_address(host)
    except ValueError:
        return None


def check_addresses(addresses: Sequence[str], allowed_networks: Sequence[Network] = ()) -> None:
    """Check that every address of a host may be visited; raises `NotPublic` otherwise."""
    for address in addresses:
        parsed = literal(address)
        if parsed is None or not _is_allowed(parsed, tuple(allowed_networks)):
            raise NotPublic


def all_allowed(addresses: Sequence[str], allowed_networks: Sequence[Network]) -> bool:
    """Return whether every address is in a network that the operator allowed."""
    parsed = [literal(address) for address in addresses]
    return all(
        one is not None and any(_is_in(as_, allowed_networks) for as_ in (one, _embedded_ipv4(one) or one))
        for one in parsed
    )


@lru_cache(maxsize=1_000)
def _is_allowed(address: IPv4Address | IPv6Address, allowed_networks: tuple[Network, ...]) -> bool:
    if getattr(address, "scope_id", None) is not None:
        return False
    target = _embedded_ipv4(address) or address
    if _is_in(target, _FORBIDDEN):
        return False
    if _is_in(address, allowed_networks) or _is_in(target, allowed_networks):
        return True
    return not _is_in(target, _NOT_GLOBAL) and (isinstance(target, IPv4Address) or target in _GLOBAL_6)


def _embedded_ipv4(address: IPv4Address | IPv6Address) -> IPv4Address | None:
    """Return the IPv4 address in a mapped, translated or compatible IPv6 address."""
    return IPv4Address(int(address) & 0xFFFFFFFF) if _is_in(address, _EMBEDS_IPV4) else None


def _is_in(address: IPv4Address | IPv6Address, networks_: Sequence[Network]) -> bool:
    return any(address in network for network in networks_)
