/** What the conformance suite needs to run against this store: nothing outside the state folder that it is given. */
export async function start() {
  return { settings: {}, async restart() {}, async stop() {} }
}

/** The folder belongs to one process and one store in it. */
export const knobs = { opensTwice: false }
