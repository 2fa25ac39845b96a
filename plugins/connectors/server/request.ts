/** What a read asks for, against what the catalog has: the same refusals for every kind of server. */
import {
  type Column,
  type ConnectorHost,
  type ReadRequest,
  SluiceError,
  type TableSchema,
  unsupported,
} from '@sluice/sdk'
import { Interrupted } from './failure.ts'

/** A fault point: what it throws is no failure of the source. */
export async function reached(host: ConnectorHost, point: string): Promise<void> {
  try {
    await host.faultPoint(point)
  } catch (cause) {
    throw new Interrupted(point, { cause })
  }
}

/** `schemas`: those that the connection offers; null: all. */
export function refuseOutright(schemas: readonly string[] | null, request: ReadRequest, where: string): void {
  if (request.mode !== 'full' && request.mode !== 'incremental') throw unsupported('reading by that mode')
  // A NUL would end the statement early on its way to the server.
  if (`${request.schema}${request.table}`.includes('\0')) throw tableMissing(where)
  if (schemas === null || schemas.includes(request.schema)) return
  throw new SluiceError('CONFIG', `${where}: its schema is not among those that this connection offers`, {
    code: 'source_schema_not_offered',
    remedy: 'Add the schema to the setting "schemas", or read another table.',
  })
}

export function tableMissing(where: string): SluiceError {
  return new SluiceError('INVALID_DATA', `${where}: this is no table or view`, {
    code: 'source_table_missing',
    remedy: 'Name a table, view, materialized view or foreign table; discover lists them.',
  })
}

/** `shown`: those that are read where none is named. */
export function chosenColumns<C extends { readonly name: string }>(
  columns: readonly C[],
  shown: readonly C[],
  request: ReadRequest,
  where: string,
): readonly C[] {
  const byName = new Map(columns.map((column) => [column.name, column]))
  const names = request.columns.length > 0 ? request.columns : shown.map(({ name }) => name)
  const missing = names.filter((name) => !byName.has(name))
  if (missing.length > 0) {
    throw new SluiceError('INVALID_DATA', `${where}: the login finds no column ${list(missing)}`, {
      code: 'source_column_missing',
      remedy: 'Discover the table again; the column was dropped, renamed, or is not granted to this login.',
      details: { columns: missing },
    })
  }
  if (names.length === 0) {
    throw new SluiceError('INVALID_DATA', `${where}: it has no columns`, {
      code: 'source_table_empty',
      remedy: 'Read a table that has columns.',
    })
  }
  return names.flatMap((name) => byName.get(name) ?? [])
}

export function requestedSchema(
  columns: readonly Column[],
  primaryKey: readonly string[],
  request: ReadRequest,
  where: string,
): TableSchema {
  const chosen = new Set(columns.map((column) => column.name))
  const missing = request.primaryKey.filter((name) => !chosen.has(name))
  if (missing.length > 0) {
    throw new SluiceError('INVALID_DATA', `${where}: the key names ${list(missing)}, which is not read`, {
      code: 'source_key_not_read',
      remedy: 'Add the key to the columns that are read, or name another key.',
      details: { columns: missing },
    })
  }
  const known = primaryKey.every((name) => chosen.has(name)) ? primaryKey : []
  return { columns, primaryKey: request.primaryKey.length > 0 ? request.primaryKey : known }
}

function list(names: readonly string[]): string {
  return names.map((name) => JSON.stringify(name)).join(', ')
}

/** Of a list of tables: the schema and name of the last one that was given. */
export function parsePosition(text: string): readonly [string, string] {
  try {
    const position: unknown = JSON.parse(text)
    if (Array.isArray(position) && position.length === 2) {
      const [schema, name] = position
      if (typeof schema === 'string' && typeof name === 'string') return [schema, name]
    }
  } catch {
    // Not JSON: refused below like any other text that we have not made.
  }
  throw new SluiceError('INVALID_DATA', 'the position in the list of tables is not one of this connector', {
    code: 'discover_position_invalid',
    remedy: 'Start the list again from its beginning.',
  })
}
