import type { Fixture } from '@sluice/conformance'

/** The file stands in the folder that the host gives to the store, so there is nothing to start. */
export async function start(): Promise<Fixture> {
  return { settings: {}, async restart() {}, async stop() {} }
}
