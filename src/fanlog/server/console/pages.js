// All pages: where they are, what they need, and the module that makes them, which comes when it is asked for.

const from = (file, name = file) => async () => (await import(`./pages/${file}.js`))[name];
const one = (kind) => (names, project) => ({ [kind]: [`projects/${project}/${kind}/${names[0]}`] });

export const PAGES = [
	{ path: "", title: "Overview", open: from("overview") },
	{ path: "P/topics", title: "Topics", group: "Messages", needs: ["pubsub.topics.list"],
		open: from("topics") },
	{ path: "P/topics/*", under: "P/topics", title: "Topic", hidden: true, live: one("topics"),
		open: from("topic") },
	{ path: "P/subscriptions", title: "Subscriptions", group: "Messages", needs: ["pubsub.subscriptions.list"],
		open: from("subscriptions") },
	{ path: "P/subscriptions/*", under: "P/subscriptions", title: "Subscription", hidden: true, live: one("subscriptions"),
		open: from("subscription") },
	{ path: "P/messages", title: "Messages", group: "Messages", needs: ["fanlog.topics.read", "pubsub.subscriptions.consume"],
		open: from("messages") },
	{ path: "P/messages/*", under: "P/messages", title: "Message", hidden: true, open: from("message") },
	{ path: "P/letters", title: "Dead letters", group: "Messages", needs: ["pubsub.subscriptions.consume"],
		open: from("letters") },
	{ path: "P/filters", title: "Filters", group: "Messages", open: from("filters") },
	{ path: "P/schemas", title: "Schemas", group: "Messages", needs: ["pubsub.schemas.list"],
		open: from("schemas") },
	{ path: "P/schemas/*", under: "P/schemas", title: "Schema", hidden: true, open: from("schemas", "schema") },
	{ path: "P/jobs", title: "Jobs", group: "Operations", needs: ["fanlog.jobs.list"], open: from("jobs") },
	{ path: "P/lake", title: "Lake", group: "Operations", needs: ["fanlog.lake.get"], open: from("lake") },
	{ path: "P/pipeline", title: "Pipeline", group: "Operations", needs: ["fanlog.jobs.list"], open: from("lake", "pipeline") },
	{ path: "P/access", title: "Access", group: "Operations", needs: ["fanlog.accounts.list", "fanlog.policies.get"], when: ({ session }) => session.auth === "required",
		open: from("access") },
];

/** The page of a route; of one that there is not, a page that says so. */
export function pageOf(parts) {
	const inProject = parts[0] === "projects" && parts.length > 2;
	const found = inProject ? ["P", ...parts.slice(2)] : parts;
	for (const page of PAGES) {
		const pattern = page.path ? page.path.split("/") : [];
		if (pattern.length === found.length && pattern.every((part, index) => part === "*" || part === found[index])) {
			return { page, names: found.filter((_, index) => pattern[index] === "*") };
		}
	}
	return { page: { path: "?", title: "Not here", open: from("nowhere") }, names: parts };
}
