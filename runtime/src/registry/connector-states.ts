/** Where the next read of a source's table goes on. Written in the transaction that commits what was read. */
import { change, json, many, maybeOne, type Queryable, type Transaction } from './sql.ts'

export interface StoredConnectorState {
  readonly tableName: string
  /** The connector's own; versioned by it. */
  readonly state: unknown
  readonly runId: string
  readonly updatedAt: Date
}

const COLUMNS = 'table_name as "tableName", state, run_id as "runId", updated_at as "updatedAt"'

/** At most 64 KiB, as the connector's contract says. */
export async function saveConnectorState(
  tx: Transaction,
  table: { readonly connectionId: string; readonly tableName: string; readonly runId: string },
  state: unknown,
): Promise<void> {
  await change(
    tx,
    'storing the connector’s state',
    `insert into connector_states (connection_id, table_name, state, run_id) values ($1, $2, $3, $4)
     on conflict (connection_id, table_name) do update
       set state = excluded.state, run_id = excluded.run_id, updated_at = now()`,
    [table.connectionId, table.tableName, json(state), table.runId],
  )
}

export function connectorState(
  db: Queryable,
  connectionId: string,
  tableName: string,
): Promise<StoredConnectorState | null> {
  return maybeOne<StoredConnectorState>(
    db,
    'reading the connector’s state',
    `select ${COLUMNS} from connector_states where connection_id = $1 and table_name = $2`,
    [connectionId, tableName],
  )
}

export function connectorStates(db: Queryable, connectionId: string): Promise<StoredConnectorState[]> {
  return many<StoredConnectorState>(
    db,
    'reading the connector’s state',
    `select ${COLUMNS} from connector_states where connection_id = $1 order by table_name`,
    [connectionId],
  )
}

/** The next read of the table starts from its beginning. */
export async function forgetConnectorState(db: Queryable, connectionId: string, tableName: string): Promise<void> {
  const statement = 'delete from connector_states where connection_id = $1 and table_name = $2'
  await change(db, 'forgetting the connector’s state', statement, [connectionId, tableName])
}

/** All tables are read from their beginning: what the states tell is of a place that is read no more. */
export async function forgetConnectorStates(db: Queryable, connectionId: string): Promise<void> {
  const statement = 'delete from connector_states where connection_id = $1'
  await change(db, 'forgetting the connector’s states', statement, [connectionId])
}
