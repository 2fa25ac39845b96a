/** What provisioning would say of a schema, column by column, without doing it. */
import type { Column, SchemaVerdict, TableSchema } from '@sluice/sdk'
import { loadDataset, registerExists } from './datasets.ts'
import { physicalColumns } from './identifiers.ts'
import { schemaConflictOf, type WantedTable, widens } from './provisioning.ts'
import type { Sessions } from './sessions.ts'
import type { TableShape } from './table-shape.ts'

/** Judged by what is in the store; where nothing is, by the previous schema's table if one is named. */
export async function judgeSchema(
  sessions: Sessions,
  wanted: WantedTable,
  schema: TableSchema,
  previous: TableShape | null,
): Promise<readonly SchemaVerdict[]> {
  const there = await sessions.transaction('owner', wanted.key.tenant, 'judging a schema', async (client) =>
    (await registerExists(client)) ? ((await loadDataset(client, wanted.key))?.shape ?? null) : null,
  )
  const shape = there ?? previous
  const names = physicalColumns(schema.columns.map((column) => column.name))
  const verdicts = schema.columns.map((column) => judge(column, names.get(column.name) ?? column.name, schema, shape))
  const conflict = shape === null ? null : schemaConflictOf(shape, wanted.shape)
  if (conflict === null || verdicts.some(({ verdict }) => verdict === 'unsatisfiable')) return verdicts
  // Not one column's fault but that of all of them together: a column that is gone, another key, another history.
  return verdicts.map(({ column }) => ({ column, verdict: 'unsatisfiable', reason: conflict }))
}

function judge(column: Column, name: string, schema: TableSchema, shape: TableShape | null): SchemaVerdict {
  const former = shape?.columns.find((candidate) => candidate.name === name)
  if (former && former.type !== column.type && !widens(former.type, column.type)) {
    return { column, verdict: 'unsatisfiable', reason: `rows hold it as ${former.type}, which is no ${column.type}` }
  }
  if (schema.primaryKey.includes(column.name)) return { column, verdict: 'required', reason: 'it identifies the rows' }
  if (former) return { column, verdict: 'required', reason: 'rows hold it, and would lose it' }
  return { column, verdict: 'optional', reason: 'it can be added; rows that are there get null' }
}
