// The public API. Its errors are sentences already.

const failed = (status, message) => Object.assign(new Error(message), { status });

let session = { auth: "none" };
export const whoAmI = () => session;

let leaving;
export const forPage = (signal) => { leaving = signal; };

async function request(method, path, body, { signal = method === "GET" ? leaving : undefined, headers } = {}) {
	const sent = { ...headers };
	if (body !== undefined) sent["content-type"] = "application/json";
	if (session.csrfToken && method !== "GET") sent["x-csrf-token"] = session.csrfToken;
	let answer;
	try {
		answer = await fetch(path, { method, signal, headers: sent, body: body === undefined ? undefined : JSON.stringify(body) });
	} catch (error) {
		if (error.name === "AbortError") throw error;
		throw failed(0, "The server does not answer. This page tries again.");
	}
	const text = await answer.text();
	let found = {};
	try { found = text ? JSON.parse(text) : {}; } catch { /* not JSON: only errors before our routes are */ }
	if (!answer.ok) {
		if (answer.status === 401 && path !== "/v1/session") window.dispatchEvent(new Event("signed-out"));
		throw failed(answer.status, found.error?.message ?? `The server answered ${answer.status}.`);
	}
	return found;
}

/** Parameters of a path or a route, but for those without a value. */
export function queryOf(parameters = {}) {
	const set = Object.entries(parameters).filter(([, value]) => value || value === 0);
	return set.length ? `?${new URLSearchParams(set)}` : "";
}

export const get = (path, parameters) => request("GET", path + queryOf(parameters));
export const post = (path, body = {}, options) => request("POST", path, body, options);
export const put = (path, body, options) => request("PUT", path, body, options);
export const onlyNew = { headers: { "if-none-match": "*" } };
export const patch = (path, body) => request("PATCH", path, body);
export const remove = (path) => request("DELETE", path);

export async function readSession() {
	session = await get("/v1/session");
	return session;
}
export async function signIn(token) {
	session = await post("/v1/session", { token });
}
export async function signOut() {
	await remove("/v1/session");
	session = { auth: "required", signedIn: false };
}

const known = new Map();
export const forgetRights = () => known.clear();

/** What the caller may do on some resources. */
export async function rights(...resources) {
	if (session.auth !== "required") return () => true;
	const asked = [...new Set(["server", ...resources])];
	const missing = asked.filter((resource) => !known.has(resource));
	if (missing.length) {
		const { granted = [] } = await post("/v1/access:check", { resources: missing });
		for (const one of granted) known.set(one.resource, new Set(one.permissions ?? []));
	}
	const sets = asked.map((resource) => known.get(resource) ?? new Set());
	return (permission) => sets.some((set) => set.has(permission));
}

/** All pages of a list, up to a limit; `more`: there are others. */
export async function all(path, field, parameters, limit = 1000) {
	const found = [];
	let pageToken;
	do {
		const answer = await get(path, { ...parameters, pageSize: 200, pageToken });
		found.push(...(answer[field] ?? []));
		pageToken = answer.nextPageToken;
	} while (pageToken && found.length < limit);
	found.more = Boolean(pageToken);
	return found;
}
