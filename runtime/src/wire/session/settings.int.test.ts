/** What is set and rolled back, against a PostgreSQL that is told the same. */
import assert from 'node:assert/strict'
import { after, before, it } from 'node:test'
import fc from 'fast-check'
import pg from 'pg'
import { startTestPostgres, type TestDatabase } from '../../database/testing.ts'
import type { RunningWire } from '../listener.ts'
import { clientOf, openWire, person, tokens } from '../wire.fixture.ts'

let wire: RunningWire
let database: TestDatabase
let ours: pg.Client
let theirs: pg.Client

before(async () => {
  database = await (await startTestPostgres()).createDatabase()
  theirs = new pg.Client({ connectionString: database.url })
  await theirs.connect()
  tokens.set('good', person('acme'))
  wire = await openWire()
  ours = clientOf(wire, 'good')
  await ours.connect()
})

after(async () => {
  await ours?.end()
  await wire?.stop(1_000)
  await theirs?.end()
  await database?.drop()
})

const name = fc.constantFrom('a', 'b')
const change = fc.oneof(
  fc.constantFrom('x', 'y', 'z').map((value) => `application_name = '${value}'`),
  // Longer than any test, whatever the machine does.
  fc
    .constantFrom('5400s', '7200000', '3600001', '2d', '0', 'DEFAULT')
    .map((value) => `statement_timeout TO ${quoted(value)}`),
)
const command = fc.oneof(
  { weight: 2, arbitrary: fc.constant('BEGIN') },
  { weight: 4, arbitrary: name.map((one) => `SAVEPOINT ${one}`) },
  { weight: 4, arbitrary: name.map((one) => `ROLLBACK TO SAVEPOINT ${one}`) },
  { weight: 1, arbitrary: name.map((one) => `RELEASE ${one}`) },
  { weight: 6, arbitrary: change.map((one) => `SET ${one}`) },
  { weight: 4, arbitrary: change.map((one) => `SET LOCAL ${one}`) },
  {
    weight: 2,
    arbitrary: fc.constantFrom('RESET application_name', 'RESET ALL', 'COMMIT', 'ROLLBACK', 'SHOW nothing'),
  },
)

function quoted(value: string): string {
  return value === 'DEFAULT' ? value : `'${value}'`
}

/** What each command, and a look at both settings behind it, is answered. */
async function answers(client: pg.Client, commands: readonly string[]): Promise<readonly string[]> {
  const told: string[] = []
  for (const sql of ['ROLLBACK', 'RESET ALL', ...commands]) {
    for (const one of [sql, 'SHOW application_name', 'SHOW statement_timeout']) {
      const answer = await client.query({ text: one, rowMode: 'array' }).then(
        ({ command: tag, rows }) => `${tag} ${rows}`,
        ({ code }: pg.DatabaseError) => `error ${code}`,
      )
      told.push(`${one}: ${answer}`)
    }
  }
  return told
}

it('settings are what a PostgreSQL has after the same transactions and savepoints', async () => {
  const begun = fc
    .array(command, { minLength: 1, maxLength: 25 })
    .map((some) => ['BEGIN', 'SAVEPOINT a', 'SAVEPOINT b', ...some])
  await fc.assert(
    fc.asyncProperty(begun, async (commands) => {
      assert.deepEqual(await answers(ours, commands), await answers(theirs, commands))
    }),
    {
      numRuns: 40,
      examples: ['SET', 'SET LOCAL'].flatMap((set) =>
        ['ROLLBACK TO SAVEPOINT b', 'ROLLBACK TO a', 'RELEASE a', 'COMMIT', 'ROLLBACK'].map(
          (end) =>
            [
              [
                'BEGIN',
                `${set} application_name = 'x'`,
                'SAVEPOINT a',
                'SAVEPOINT b',
                `${set} application_name = 'y'`,
                end,
                'COMMIT',
              ],
            ] satisfies [string[]],
        ),
      ),
    },
  )
})
