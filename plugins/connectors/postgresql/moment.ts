/**
 * One instant for every read of an opened connector: the snapshot of the first read, whose session stays until the connector
 * is closed.
 */
import { escapeLiteral } from 'pg'
import { momentLost } from '../server/failure.ts'
import { sqlState } from './failure.ts'
import type { Session } from './session.ts'

export class Moment {
  #snapshot: string | null = null
  #first: Session | null = null
  #isRead = false

  /** Begins the session's transaction, at the instant of the first read if there was one. */
  async begin(session: Session): Promise<void> {
    await session.begin()
    if (this.#snapshot === null) return
    await shared(() => session.run(`SET TRANSACTION SNAPSHOT ${escapeLiteral(this.#snapshot ?? '')}`))
  }

  /** To be called when the table is locked: what the first read sees is what all see, of a table that is the same one. */
  async see(session: Session, oid: string): Promise<void> {
    if (this.#snapshot !== null) return checkUnchanged(session, oid)
    const query = 'SELECT pg_export_snapshot() AS snapshot'
    const [row] = await shared(() => session.query<{ readonly snapshot: string }>(query))
    this.#snapshot = row?.snapshot ?? null
    this.#first = session
  }

  /** A read has ended well. Its session is closed, unless the others see the instant by it. */
  async end(session: Session): Promise<void> {
    if (session !== this.#first) return session.close()
    await session.run('SET LOCAL idle_in_transaction_session_timeout = 0')
    this.#isRead = true
  }

  /** A read is over, one way or the other. If the first one has failed, the next one is the first. */
  async leave(session: Session): Promise<void> {
    if (session === this.#first) {
      if (this.#isRead) return
      this.#first = null
      this.#snapshot = null
    }
    await session.close()
  }
}

async function shared<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (cause) {
    throw REFUSALS.has(sqlState(cause) ?? '') ? momentLost(cause) : cause
  }
}

/** No such snapshot, no such function, not here: what a server says that cannot do it, or behind which another stands. */
const REFUSALS: ReadonlySet<string> = new Set(['22023', '42704', '42883', '42501', '0A000', '25001', '55000'])

/**
 * A table that was emptied or rewritten after the snapshot was taken shows it nothing, or not what it held. Its file tells:
 * the catalog is read as of the snapshot, and the functions that ask for a file as of now.
 */
async function checkUnchanged(session: Session, oid: string): Promise<void> {
  const rows = await session.query(
    `WITH RECURSIVE part(oid) AS (
       SELECT $1::oid UNION SELECT i.inhrelid FROM pg_inherits i JOIN part ON i.inhparent = part.oid)
     SELECT FROM part JOIN pg_class c ON c.oid = part.oid
     WHERE c.relkind IN ('r', 'm') AND pg_relation_filenode(c.oid) IS DISTINCT FROM c.relfilenode LIMIT 1`,
    [oid],
  )
  if (rows.length > 0) throw momentLost(null)
}
