/** Tables whose rows are not tried again, and what to do in place of it. */
import { SluiceError } from '@sluice/sdk'

/**
 * `whole`: it is read whole each time. `log`: its log has told of the row since, or has not, and nobody kept which. `unread`: no
 * increments can be merged into the raw table. `retyped`: rows cannot be compared with those of the raw table.
 */
export type Unsupported = 'whole' | 'log' | 'unread' | 'retyped'

const WHY: Readonly<Record<Unsupported, readonly [string, string]>> = {
  whole: ['it is read whole each time', 'Sync the connection: every row is read again.'],
  log: [
    'it is read by the log of its source, and what the log has told of a row since is not kept',
    'Read the table whole again: sluice backfill.',
  ],
  unread: ['there is no raw table that rows could be merged into by that key', 'Sync the connection, then replay.'],
  retyped: [
    'its key or cursor has another type than the raw table has it by',
    'Sync the connection: the table is read whole by the new type.',
  ],
}

export function replayUnsupported(table: string, why: Unsupported, more?: string): SluiceError {
  const [reason, remedy] = WHY[why]
  const text = more === undefined ? reason : `${reason}: ${more}`
  return new SluiceError('INVALID_DATA', `${table}: its quarantine cannot be replayed: ${text}`, {
    code: 'replay_unsupported',
    remedy,
    details: { table, reason: why },
  })
}
