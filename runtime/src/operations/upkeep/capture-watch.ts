/** Asks sources what they keep of their logs for us, where no run did, and gives up what nobody reads any more. */
import { isReadByLog, tablesOf } from '../../ingestion/source-tables.ts'
import type { NextDue } from '../../jobs/claims.ts'
import type { JobKind } from '../../jobs/worker.ts'
import { capturesToCheck, capturesToRelease } from '../../registry/captures.ts'
import type { Connection } from '../../registry/connections.ts'
import { checkCapture, release } from '../connections/captures.ts'
import { openConnector, openWith } from '../connections/connections.ts'
import { readersOf } from '../products/input-reads.ts'
import type { UpkeepDeps } from './deps.ts'

export const CAPTURES_JOB = 'captures'

const EVERY_MS = 60_000
/** A run asks, too. */
const UNASKED_MS = 2 * EVERY_MS
const AT_ONCE = 20

export function captureWatch(platform: UpkeepDeps): JobKind {
  return {
    kind: CAPTURES_JOB,
    failed: 'sources could not be asked what they keep of their logs; it is tried again',
    backOff: { firstMs: EVERY_MS, lastMs: EVERY_MS },
    async work(_, signal): Promise<NextDue> {
      await watchCaptures(platform, signal)
      return { from: 'start', ms: EVERY_MS }
    },
  }
}

/** Repeatable. */
export async function watchCaptures(platform: UpkeepDeps, signal: AbortSignal, unaskedMs = UNASKED_MS): Promise<void> {
  const { pool, config } = platform
  for (const asked of await capturesToRelease(pool, AT_ONCE)) {
    await release(platform, asked, (connection, settings) => openWith(platform, connection, settings), signal)
  }
  const maxBytes = config.upkeep.max_retained_bytes
  for (const known of await capturesToCheck(pool, unaskedMs, AT_ONCE)) {
    await checkCapture(
      platform,
      known,
      {
        open: (connection) => openConnector(platform, connection),
        isRead: (connection) => isRead(platform, connection),
        maxBytes,
      },
      signal,
    )
  }
}

async function isRead({ pool }: UpkeepDeps, connection: Connection): Promise<boolean> {
  const inputs = (await readersOf(pool, connection)).flatMap(({ manifests }) => manifests.inputs)
  return tablesOf(inputs.filter((input) => input.connection === connection.name)).some(isReadByLog)
}
