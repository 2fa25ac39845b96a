import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type PointAnswer, PointReads, type ReadKeys } from './point-reads.ts'

/** Answers each statement when told to, with its keys. */
function server() {
  const statements: { keys: readonly string[]; answer: () => void; fail: () => void }[] = []
  const read: ReadKeys = (keys) =>
    new Promise((resolve, reject) => {
      const answer = () => resolve(keys.map((key) => ({ dataset: ['1'], body: `row ${key}` })))
      statements.push({ keys, answer, fail: () => reject(new Error(`no ${keys}`)) })
    })
  return { statements, read }
}

const asked = (points: PointReads, group: string, key: string, read: ReadKeys) =>
  new Promise<PointAnswer>((resolve, reject) => points.ask(group, { key, resolve, reject }, read))

const settled = () => new Promise((resolve) => setImmediate(resolve))

test('a read that comes alone goes at once; those that come meanwhile go together', async () => {
  const points = new PointReads()
  const { statements, read } = server()
  const ask = (key: string) => asked(points, 'group', key, read)
  const answers = ['a', 'b', 'c', 'b'].map(ask)
  assert.deepEqual(
    statements.map(({ keys }) => keys),
    [['a']],
  )
  statements[0]?.answer()
  await settled()
  assert.deepEqual(
    statements.map(({ keys }) => keys),
    [['a'], ['b', 'c', 'b']],
  )
  statements[1]?.answer()
  assert.deepEqual(
    (await Promise.all(answers)).map(({ body }) => body),
    ['row a', 'row b', 'row c', 'row b'],
  )
  void ask('d')
  assert.equal(statements.length, 3)
})

test('many that wait get more statements, and one holds a bounded number of keys', async () => {
  const points = new PointReads()
  const { statements, read } = server()
  for (let key = 0; key < 300; key += 1) void asked(points, 'group', String(key), read)
  assert.deepEqual(
    statements.map(({ keys }) => keys.length),
    [1, 8, 8],
  )
  statements[0]?.answer()
  statements[1]?.answer()
  await settled()
  assert.deepEqual(
    statements.map(({ keys }) => keys.length),
    [1, 8, 8, 100, 100],
  )
})

test('groups never meet', () => {
  const points = new PointReads()
  const [one, two] = [server(), server()]
  for (const key of ['a', 'b']) {
    void asked(points, 'one', key, one.read)
    void asked(points, 'two', key, two.read)
  }
  assert.deepEqual([one.statements.length, two.statements.length], [1, 1])
})

test('what fails together is tried alone, and only what is at fault fails', async () => {
  const points = new PointReads()
  const { statements, read } = server()
  const [first, bad, good] = ['first', 'bad', 'good'].map((key) => asked(points, 'group', key, read))
  statements[0]?.answer()
  await settled()
  statements[1]?.fail()
  await settled()
  assert.deepEqual(
    statements.slice(2).map(({ keys }) => keys),
    [['bad'], ['good']],
  )
  statements[2]?.fail()
  statements[3]?.answer()
  assert.equal((await first)?.body, 'row first')
  await assert.rejects(bad ?? Promise.resolve(), /no bad/)
  assert.equal((await good)?.body, 'row good')
})
