// All pages: where they are, what they need, and the module that makes them.

const one = (kind) => (names, project) => ({ [kind]: [`projects/${project}/${kind}/${names[0]}`] });
const page = (path, title, file, more) => ({ path, title, open: async () => (await import(`./pages/${file}.js`))[more?.name ?? path.split("/").at(-1)], ...more });
const inMessages = { group: "Messages" };
const inOperations = { group: "Operations" };

export const PAGES = [
	page("", "Overview", "overview", { name: "overview" }),
	page("P/topics", "Topics", "topics", { ...inMessages, needs: ["pubsub.topics.list"] }),
	page("P/topics/*", "Topic", "topics", { name: "topic", under: "P/topics", live: one("topics") }),
	page("P/subscriptions", "Subscriptions", "subscriptions", { ...inMessages, needs: ["pubsub.subscriptions.list"] }),
	page("P/subscriptions/*", "Subscription", "subscriptions", { name: "subscription", under: "P/subscriptions", live: one("subscriptions") }),
	page("P/messages", "Messages", "messages", { ...inMessages, needs: ["fanlog.topics.read", "pubsub.subscriptions.consume"] }),
	page("P/messages/*", "Message", "messages", { name: "message", under: "P/messages" }),
	page("P/letters", "Dead letters", "letters", { ...inMessages, needs: ["pubsub.subscriptions.consume"] }),
	page("P/filters", "Filters", "filters", inMessages),
	page("P/schemas", "Schemas", "schemas", { ...inMessages, needs: ["pubsub.schemas.list"] }),
	page("P/schemas/*", "Schema", "schemas", { name: "schema", under: "P/schemas" }),
	page("P/schedules", "Schedules", "rules", { ...inMessages, needs: ["fanlog.schedules.list"] }),
	page("P/alerts", "Alerts", "rules", { ...inOperations, needs: ["fanlog.alerts.list"] }),
	page("P/pipeline", "Pipeline", "pipeline", { ...inOperations, needs: ["fanlog.pipelines.list"] }),
	page("P/jobs", "Jobs", "pipeline", { ...inOperations, needs: ["fanlog.jobs.list"] }),
	page("P/lake", "Lake", "pipeline", { ...inOperations, needs: ["fanlog.lake.get"] }),
	page("cluster", "Cluster", "cluster", { ...inOperations, needs: ["fanlog.cluster.get"], when: ({ server }) => server.cluster }),
	page("P/access", "Access", "access", { ...inOperations, needs: ["fanlog.accounts.list", "fanlog.policies.get"], when: ({ session }) => session.auth === "required" }),
];

export function pageOf(parts) {
	const inProject = parts[0] === "projects" && parts.length > 2;
	const found = inProject ? ["P", ...parts.slice(2)] : parts;
	for (const page of PAGES) {
		const pattern = page.path ? page.path.split("/") : [];
		if (pattern.length === found.length && pattern.every((part, index) => part === "*" || part === found[index])) {
			return { page, names: found.filter((_, index) => pattern[index] === "*") };
		}
	}
	return null;
}
