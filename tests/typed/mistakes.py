"""Mistakes of an analyst: a type checker refuses each line that ends with ``# wrong``, and no other."""

import exposurekit as ek

exposure = ek.connect()
exposure.recrods()  # wrong
exposure.records(sight="Nosy Heron")  # wrong
exposure.records(status=3)  # wrong
ek.conect()  # wrong
ek.connect(api_kye="key")  # wrong
ek.connect(timeout="10")  # wrong
ek.charts.by_sight(exposure.records())  # wrong
ek.charts.by_site(exposure)  # wrong
ek.widgets.Dashbord(exposure)  # wrong
ek.History("exposure-history").dif("2026-11-13")  # wrong
ek.History("exposure-history").status_over_time(every="fortnight")  # wrong
ek.demo(poeple=3)  # wrong
ek.report("exposure-history")  # wrong
ek.Client().get_user("12")  # wrong
exposure["records"].shape[0] + "1"  # wrong
