import assert from 'node:assert/strict'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { after, describe, it } from 'node:test'
import { SluiceError } from '@sluice/sdk'
import { until, withLimits } from '../../../test/until.ts'
import { isUniqueViolation, toDatabaseError } from './errors.ts'
import { inTransaction, openPool } from './pools.ts'
import { PATIENT, startTestPostgres } from './testing.ts'

const postgres = await startTestPostgres()
const database = await postgres.createDatabase()
const pool = database.pool({ maxConnections: 3 })
after(() => database.drop())
await pool.query('create table numbers (n int primary key)')

async function numbers(): Promise<number[]> {
  return (await pool.query<{ n: number }>('select n from numbers order by n')).rows.map(({ n }) => n)
}

describe('a pool', { timeout: 600_000 }, () => {
  it('takes nothing from the PG environment', async () => {
    const stray = {
      PGOPTIONS: '-c search_path=nowhere -c statement_timeout=1',
      PGSSLMODE: 'require',
      PGHOST: '192.0.2.1',
      PGPORT: '1',
      PGUSER: 'nobody',
      PGPASSWORD: 'wrong',
      PGDATABASE: 'nothing',
      PGAPPNAME: 'stray',
      PGREPLICATION: 'database',
      PGCLIENTENCODING: 'LATIN1',
      PGCONNECT_TIMEOUT: '1',
      PGSSLNEGOTIATION: 'direct',
      PGTZ: 'Asia/Tokyo',
      PGDATESTYLE: 'German',
    }
    const before = { ...process.env }
    Object.assign(process.env, stray)
    const strict = openPool(database.address, { connectTimeoutMs: PATIENT.connectTimeoutMs, applicationName: 'strict' })
    try {
      const { rows } = await strict.query(`select current_user as role, current_database() as name,
        current_setting('application_name') as app, current_setting('search_path') as path,
        current_setting('client_encoding') as encoding, current_setting('statement_timeout') as timeout,
        current_setting('TimeZone') as zone, date '2026-01-31' :: text as day`)
      assert.deepEqual(rows, [
        {
          role: database.address.user,
          name: database.address.database,
          app: 'strict',
          path: 'public',
          encoding: 'UTF8',
          timeout: '30s',
          zone: 'UTC',
          day: '2026-01-31',
        },
      ])
    } finally {
      await strict.end()
      for (const name of Object.keys(stray)) delete process.env[name]
      Object.assign(process.env, before)
    }
  })

  it('writes and reads values alike, whatever the database or the login has set', async () => {
    const odd = {
      array_nulls: 'off',
      extra_float_digits: '-15',
      bytea_output: 'escape',
      standard_conforming_strings: 'off',
      DateStyle: "'German'",
      TimeZone: "'Asia/Kolkata'",
    }
    const own = await postgres.createDatabase()
    const plain = own.pool({ maxConnections: 1 })
    for (const [name, value] of Object.entries(odd)) {
      await plain.query(`alter database "${own.address.database}" set ${name} = ${value}`)
    }
    const later = own.pool({ maxConnections: 1 })
    const { rows } = await later.query(
      `select $1::text[] as texts, ($2::bytea[])[1] is null as none, 0.1::float8 + 0.2 as sum, '\\x00ff'::bytea::text as bytes,
         '2026-01-31T12:00Z'::timestamptz::text as at, length('\\n') as length`,
      [
        [null, 'NULL', 'null'],
        [null, Buffer.from('x')],
      ],
    )
    const told = { texts: [null, 'NULL', 'null'], none: true, sum: 0.1 + 0.2, bytes: '\\x00ff', length: 2 }
    assert.deepEqual(rows, [{ ...told, at: '2026-01-31 12:00:00+00' }])
    await own.drop()
  })

  it('takes nothing from what is set for its role and its database', async () => {
    const odd = {
      search_path: 'nowhere',
      statement_timeout: '1',
      lock_timeout: '1',
      idle_session_timeout: '1',
      idle_in_transaction_session_timeout: '1',
      client_connection_check_interval: '0',
      default_transaction_isolation: 'serializable',
      standard_conforming_strings: 'off',
      row_security: 'off',
      TimeZone: 'Asia/Tokyo',
      DateStyle: 'German, DMY',
      IntervalStyle: 'iso_8601',
      bytea_output: 'escape',
      extra_float_digits: '-10',
    }
    const own = openPool(database.address, { ...PATIENT, applicationName: 'own' })
    const shown = async () =>
      (await own.query('select name, setting from pg_settings where name = any($1) order by 1', [Object.keys(odd)]))
        .rows
    const { user, database: name } = database.address
    try {
      const before = await shown()
      assert.equal(before.length, Object.keys(odd).length)
      for (const target of [`role "${user}" in database "${name}"`, `database "${name}"`]) {
        for (const [key, value] of Object.entries(odd)) await pool.query(`alter ${target} set ${key} = '${value}'`)
        try {
          const { pid } = (await own.query<{ pid: number }>('select pg_backend_pid() as pid')).rows[0] as {
            pid: number
          }
          await pool.query('select pg_terminate_backend($1, 10000)', [pid])
          await until('a new connection is there', async () => {
            const { rows } = await own
              .query<{ pid: number }>('select pg_backend_pid() as pid')
              .catch(() => ({ rows: [] }))
            return rows[0] !== undefined && rows[0].pid !== pid
          })
          assert.deepEqual(await shown(), before, target)
        } finally {
          await pool.query(`alter ${target} reset all`)
        }
      }
    } finally {
      await own.end()
    }
  })

  it('gives up waiting for a connection with a TRANSIENT error', async () => {
    // The same limit is that of a connection's making, which may take longer than it.
    await withLimits([100, 1_000, 10_000, 60_000], async (connectTimeoutMs) => {
      const narrow = database.pool({ maxConnections: 1, connectTimeoutMs })
      const held = await narrow.connect()
      await assert.rejects(
        inTransaction(narrow, async () => undefined),
        { kind: 'TRANSIENT', code: 'database_unavailable' },
      )
      held.release()
    })
  })

  it('survives the loss of an idle connection', async () => {
    const errors: Error[] = []
    const watched = database.pool({ maxConnections: 1, onIdleError: (error) => errors.push(error) })
    const { rows } = await watched.query<{ pid: number }>('select pg_backend_pid() as pid')
    await pool.query('select pg_terminate_backend($1, 5000)', [rows[0]?.pid])
    await until('the pool hears of the loss', () => errors.length > 0)
    assert.equal((await watched.query('select 1 as one')).rowCount, 1)
  })
})

describe('a transaction', { timeout: 600_000 }, () => {
  it('keeps what it returns from, and nothing of what it throws from', async () => {
    await pool.query('truncate numbers')
    const answer = await inTransaction(pool, async (tx) => {
      await tx.query('insert into numbers values (1)')
      return 'done'
    })
    assert.equal(answer, 'done')
    const failure = new SluiceError('CONFLICT', 'no', { code: 'no' })
    const failing = inTransaction(pool, async (tx) => {
      await tx.query('insert into numbers values (2)')
      throw failure
    })
    await assert.rejects(failing, (error) => error === failure)
    assert.deepEqual(await numbers(), [1])
  })

  it('translates the driver’s errors and keeps them as cause', async () => {
    await pool.query('truncate numbers')
    await assert.rejects(
      inTransaction(pool, (tx) => tx.query('insert into numbers values (7), (7)')),
      (error: SluiceError) =>
        error.kind === 'CONFLICT' && isUniqueViolation(error, 'numbers_pkey') && !/numbers|7/.test(error.message),
    )
  })

  it('does not take a swallowed error for success', async () => {
    await pool.query('truncate numbers')
    const swallowing = inTransaction(pool, async (tx) => {
      await tx.query('insert into numbers values (1)')
      await tx.query('select broken').catch(() => undefined)
    })
    await assert.rejects(swallowing, SluiceError)
    assert.deepEqual(await numbers(), [])
  })

  it('ends with its signal in the middle of a statement, and the server forgets it', async () => {
    await pool.query('truncate numbers')
    const abort = new AbortController()
    const reason = new Error('enough')
    const patient = database.pool({ statementTimeoutMs: 0 })
    const isRunning = async () =>
      (
        await pool.query(`select from pg_stat_activity
          where state = 'active' and query like '%cut short%' and pid <> pg_backend_pid()`)
      ).rowCount !== 0
    const running = inTransaction(
      patient,
      async (tx) => {
        await tx.query('insert into numbers values (1)')
        const statement = tx.query(`select pg_sleep(600) as "cut short"`)
        void until('the statement runs', isRunning).finally(() => abort.abort(reason))
        await statement
      },
      { signal: abort.signal },
    )
    await assert.rejects(running, (error) => error === reason)
    await until('the server forgets it', async () => !(await isRunning()))
    assert.deepEqual(await numbers(), [])
    await inTransaction(pool, (tx) => tx.query('insert into numbers values (2)'))
    assert.deepEqual(await numbers(), [2])
  })

  it('does not begin under a signal that has come', async () => {
    let began = false
    const signal = AbortSignal.abort(new Error('late'))
    const work = async (): Promise<void> => {
      began = true
    }
    await assert.rejects(inTransaction(pool, work, { signal }), /late/)
    assert.equal(began, false)
  })

  it('is run again after a serialization failure, as often as allowed', async () => {
    await pool.query('truncate numbers')
    await pool.query('insert into numbers values (0)')
    const increment = (retries: number) => {
      let attempts = 0
      const done = inTransaction(
        pool,
        async (tx) => {
          attempts += 1
          const { rows } = await tx.query<{ n: number }>('select n from numbers')
          if (attempts === 1) await pool.query('update numbers set n = n + 10')
          await tx.query('update numbers set n = $1', [(rows[0]?.n ?? 0) + 1])
        },
        { isolation: 'repeatable read', retries },
      )
      return done.then(() => attempts)
    }
    await assert.rejects(increment(0), { kind: 'CONFLICT', code: 'database_conflict' })
    assert.equal(await increment(1), 2)
    assert.deepEqual(await numbers(), [21])
  })
})

/** A way to the server that can be stopped: nothing passes, and nobody is told. */
async function stoppableWay() {
  const { host, port } = database.admin
  const server = createServer((client) => {
    const behind = host.startsWith('/') ? connect(`${host}/.s.PGSQL.${port}`) : connect({ host, port })
    for (const [from, to] of [
      [client, behind],
      [behind, client],
    ] as const) {
      sockets.add(from)
      from.on('error', () => undefined)
      from.once('close', () => to.destroy())
      from.pipe(to)
    }
  })
  const sockets = new Set<Socket>()
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const stopped = () => {
    for (const socket of sockets) socket.unpipe().pause()
  }
  const close = () => {
    for (const socket of sockets) socket.destroy()
    server.close()
  }
  return { port: (server.address() as AddressInfo).port, stopped, close }
}

describe('a server that says nothing any more', { timeout: 600_000 }, () => {
  it('is given up, by statements and by transactions, and new connections serve', async () => {
    await withLimits([300, 3_000, 30_000], async (answerTimeoutMs) => {
      const way = await stoppableWay()
      const address = { ...database.address, host: '127.0.0.1', port: way.port }
      const cut = openPool(address, { ...PATIENT, applicationName: 'cut', maxConnections: 2, answerTimeoutMs })
      let isStopped = false
      try {
        await cut.query('select 1')
        const working = inTransaction(cut, async (client) => {
          await client.query('select 1')
          way.stopped()
          isStopped = true
          await client.query('select 2')
        })
        await assert.rejects(
          working,
          (error: SluiceError) => toDatabaseError(error, 'asking').code === 'database_unavailable',
        )
        assert.ok(isStopped, 'the server answered in time until it was stopped')
        assert.deepEqual((await cut.query('select 5 as n')).rows, [{ n: 5 }])
      } finally {
        way.close()
        await cut.end()
      }
    })
  })
})
