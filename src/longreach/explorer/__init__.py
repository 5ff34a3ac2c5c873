"""The explorer: what a page shows of positions, models and studies. See `longreach explore`.

Every number comes from the modules that the lab and the clinic use. Of what is here, `app` and
`server` alone need gradio; `positions` and `view` serve any page.
"""
