/** An embedded server that is started again where it was, when it ends without having been asked to. */
import { setTimeout as sleep } from 'node:timers/promises'
import { isSluiceError, type Logger } from '@sluice/sdk'
import { type EmbeddedServer, type EmbeddedServerOptions, startEmbeddedServer } from './embedded-server.ts'

/** Its address is the same for as long as it is kept: pools and listeners find it there again. */
export type KeptServer = Pick<EmbeddedServer, 'address' | 'tcpAddress' | 'stop'>

const FIRST_WAIT_MS = 100
const LAST_WAIT_MS = 30_000
/** What has run for so long has not ended by what ended it the last time. */
const STEADY_MS = 60_000

export async function startKeptServer(options: EmbeddedServerOptions, logger: Logger): Promise<KeptServer> {
  const stopping = new AbortController()
  const { signal } = stopping
  let current = await startEmbeddedServer(options)
  const { address, tcpAddress } = current

  /** False: it is to be tried again. */
  const startAgain = async (waitMs: number): Promise<boolean> => {
    try {
      await sleep(waitMs, undefined, { signal })
      current = await startEmbeddedServer({ ...options, port: tcpAddress.port, signal })
      logger.warn('the embedded PostgreSQL works again')
      return true
    } catch (error) {
      if (!signal.aborted) logger.error('the embedded PostgreSQL could not be started; it is tried again', told(error))
      return signal.aborted
    }
  }
  const keep = async (): Promise<void> => {
    for (let waitMs = FIRST_WAIT_MS; !signal.aborted; ) {
      const sinceMs = performance.now()
      const how = await current.ended
      if (signal.aborted) return
      logger.error('the embedded PostgreSQL has ended by itself; it is started again', { ...how })
      if (performance.now() - sinceMs > STEADY_MS) waitMs = FIRST_WAIT_MS
      for (let isBack = false; !isBack; waitMs = Math.min(2 * waitMs, LAST_WAIT_MS)) isBack = await startAgain(waitMs)
    }
  }
  const kept = keep()
  return {
    address,
    tcpAddress,
    async stop() {
      stopping.abort()
      await current.stop()
      await kept
      // Where one was being started meanwhile.
      await current.stop()
    },
  }
}

function told(error: unknown): Readonly<Record<string, unknown>> {
  return isSluiceError(error)
    ? { code: error.code, error: error.message, remedy: error.remedy }
    : { error: (error as Error).message }
}
