// Where in the page somebody is: each view has an address that can be sent to somebody else.

/** #/page/what?name=value */
export function route() {
  const [path, query] = location.hash.replace(/^#\/?/, "").split("?");
  const [page, ...rest] = path.split("/");
  return { page, what: rest.map(decodeURIComponent).join("/"), query: new URLSearchParams(query || "") };
}

export function link(page, what, query = {}) {
  const asked = new URLSearchParams(query);
  const namespace = route().query.get("namespace");
  if (namespace) asked.set("namespace", namespace);
  const text = asked.toString();
  return `#/${page}${what ? `/${encodeURIComponent(what)}` : ""}${text ? `?${text}` : ""}`;
}
