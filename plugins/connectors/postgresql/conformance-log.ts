/** How the conformance suite writes to a PostgreSQL whose log is read, and what befalls that log. */
import { createHash } from 'node:crypto'
import type { LoggedSource, SourceTransaction, SourceWrite } from '@sluice/conformance'
import { escapeIdentifier } from 'pg'
import { baseOf, columnSql, createSql, insertSql, keySql, literal } from './conformance-sql.ts'
import type { SourceCluster } from './source-server.ts'

export function loggedSource(source: SourceCluster): LoggedSource {
  const { sql, settings } = source
  return {
    begin: () => begin(source),
    truncates: true,
    leftOut,
    addFilled: async (table, column, value) => {
      const filled = `${columnSql(column)} DEFAULT ${literal(value, column.type)}`
      await sql(`ALTER TABLE ${baseOf(table)} ADD COLUMN ${filled}`)
    },
    createUntold: async (table) => {
      await sql(`${createSql(table, settings.user)}; ALTER TABLE ${baseOf(table)} REPLICA IDENTITY NOTHING`)
    },
    places: async () => (await sql(PLACES)).map(({ name }) => String(name)),
    lose: async () => {
      const release = await limited(source, '16MB')
      for (let look = 0; look < MAX_LOOKS && (await sql(KEPT)).length > 0; look += 1) {
        await sql(`${filledBy(1)}; SELECT pg_switch_wal(); CHECKPOINT`)
      }
      await release()
    },
    traffic: async () => {
      await sql(filledBy(TRAFFIC_MB))
      // The server lets go of what lies before a record of the transactions that are open, which a checkpoint writes.
      await sql('CHECKPOINT')
      return TRAFFIC_MB * 1_000_000
    },
    press: async () => {
      const release = await limited(source, '64MB')
      for (let look = 0; look < MAX_LOOKS && (await sql(AT_EASE)).length > 0; look += 1) await sql(filledBy(4))
      return release
    },
  }
}

const TRAFFIC_MB = 8
const MAX_LOOKS = 100

const PLACES = `SELECT slot_name::text AS name FROM pg_replication_slots WHERE database = current_database()
  UNION ALL SELECT pubname::text FROM pg_publication ORDER BY 1`

/** Slots whose log is there. */
const KEPT = `SELECT slot_name FROM pg_replication_slots WHERE wal_status <> 'lost'`

/** Slots that are far from their limit. */
const AT_EASE = `SELECT slot_name FROM pg_replication_slots WHERE wal_status <> 'lost' AND safe_wal_size > 12 * 1048576`

/** Bytes of the log that are of no table. */
function filledBy(megabytes: number): string {
  return `SELECT pg_logical_emit_message(false, 'fill', repeat('x', 1000000)) FROM generate_series(1, ${megabytes})`
}

/** Bounds what slots keep, until the function that it resolves to is called. */
async function limited({ sql }: SourceCluster, size: string): Promise<() => Promise<void>> {
  const holds = async (wanted: string) => {
    await sql('SELECT pg_reload_conf()')
    const asIs = async () => (await sql('SHOW max_slot_wal_keep_size'))[0]?.['max_slot_wal_keep_size'] === wanted
    for (let look = 0; look < MAX_LOOKS && !(await asIs()); look += 1) await sql('SELECT pg_sleep(0.05)')
  }
  await sql(`ALTER SYSTEM SET max_slot_wal_keep_size = '${size}'`)
  await holds(size)
  return async () => {
    await sql('ALTER SYSTEM RESET max_slot_wal_keep_size')
    await holds('-1')
  }
}

/** So long, and so hard to compress, that the server keeps it apart from its row. */
function leftOut(index: number): string {
  const part = (number: number) => createHash('sha512').update(`${index} ${number}`).digest('base64')
  return Array.from({ length: 100 }, (_, number) => part(number)).join('')
}

async function begin(source: SourceCluster): Promise<SourceTransaction> {
  const session = await source.session()
  let marks = 0
  await session.query('BEGIN')
  const end = async (how: 'COMMIT' | 'ROLLBACK') => {
    await session.query(how)
    await session.end()
  }
  return {
    write: async (write) => {
      await session.query(writeSql(write))
    },
    spoil: async (table, row) => {
      await session.query(`UPDATE ${baseOf(table)} SET amount = 'NaN' WHERE ${keySql(table, row)}`)
      return 'amount'
    },
    mark: async () => {
      marks += 1
      await session.query(`SAVEPOINT mark_${marks}`)
    },
    undo: async () => {
      await session.query(`ROLLBACK TO SAVEPOINT mark_${marks}`)
      marks -= 1
    },
    commit: () => end('COMMIT'),
    rollback: () => end('ROLLBACK'),
  }
}

function writeSql(write: SourceWrite): string {
  const { table } = write
  switch (write.kind) {
    case 'insert':
      return insertSql(table, write.rows)
    case 'truncate':
      return `TRUNCATE ${baseOf(table)}`
    case 'remove':
      return `DELETE FROM ${baseOf(table)} WHERE ${keySql(table, write.row)}`
    case 'update': {
      const set = table.columns
        .filter(({ name }) => Object.hasOwn(write.cells, name))
        .map(({ name, type }) => `${escapeIdentifier(name)} = ${literal(write.cells[name] ?? null, type)}`)
      return `UPDATE ${baseOf(table)} SET ${set.join(', ')} WHERE ${keySql(table, write.row)}`
    }
  }
}
