/** A run as its reader may see it: sizes of raw tables are data of theirs. */
import { stepOf } from '../../quality/carried-rows.ts'
import type { LogLine, TableProgress } from '../../registry/run-progress.ts'
import type { Run } from '../../registry/runs.ts'

/** With `bytes` null, and rows in steps, for who may not read the table. */
export type SeenTable = Omit<TableProgress, 'bytes'> & {
  readonly bytes: number | null
  /** Left out, because they could not be carried. */
  readonly rowsRejected: number
}

/** By `rawReader`. */
type MayRead = (connectionId: string, table: string) => Promise<boolean>

export async function seenTables(run: Run, tables: readonly TableProgress[], mayRead: MayRead): Promise<SeenTable[]> {
  return Promise.all(
    tables.map(async (table) => {
      const { rowsRead, rowsWritten, rowsRemoved } = table
      const rowsRejected = table.state === 'succeeded' ? rowsRead - rowsWritten : 0
      if (run.connectionId === null || (await mayRead(run.connectionId, table.name))) return { ...table, rowsRejected }
      const removed = rowsRemoved === null ? null : stepOf(rowsRemoved)
      return {
        ...table,
        rowsRead: stepOf(rowsRead),
        rowsWritten: stepOf(rowsWritten),
        rowsRejected: stepOf(rowsRejected),
        rowsRemoved: removed,
        bytes: null,
      }
    }),
  )
}

/** Without the lines of tables that the reader may not read: they count rows. Each begins with its table. */
export async function seenLines(
  run: Run,
  tables: readonly TableProgress[],
  lines: readonly LogLine[],
  mayRead: MayRead,
): Promise<readonly LogLine[]> {
  const { connectionId } = run
  if (connectionId === null) return lines
  const rights = await Promise.all(tables.map(({ name }) => mayRead(connectionId, name)))
  const hidden = tables.filter((_, index) => !rights[index]).map(({ name }) => `${name}: `)
  return lines.filter(({ message }) => !hidden.some((beginning) => message.startsWith(beginning)))
}
