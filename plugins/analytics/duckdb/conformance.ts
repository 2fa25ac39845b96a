/** What the conformance suite needs to run against this store: the files and the engine are the suite's own. */
export async function start() {
  return { settings: {}, async restart() {}, async stop() {} }
}
