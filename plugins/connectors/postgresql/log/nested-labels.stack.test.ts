import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { type LogWorld, NEVER as signal, startLogWorld, stream } from './log-world.fixture.ts'

let world: LogWorld
before(async () => {
  world = await startLogWorld()
})
after(() => world?.stop())

const MAKES = `CREATE TYPE mood AS ENUM ('glad', 'sad'); CREATE DOMAIN feeling AS mood; CREATE DOMAIN moods AS mood[]; CREATE DOMAIN lists AS moods;
  CREATE TYPE span AS RANGE (subtype = mood, multirange_type_name = spans); CREATE TYPE entry AS (m mood, n int);
  CREATE TYPE diary AS (entries entry[]); CREATE DOMAIN noted AS entry; CREATE TYPE spanned AS (s spans, m moods)`

/** By type of the column, whether its values are written with the labels of `mood`, and with the fields of `entry`. */
const COLUMNS: Readonly<Record<string, readonly [boolean, boolean]>> = {
  ...Object.fromEntries(
    ['mood', 'feeling', 'moods', 'lists', 'span', 'spans', 'spanned'].flatMap((type) => [
      [type, [true, false]],
      [`${type}[]`, [true, false]],
    ]),
  ),
  ...Object.fromEntries(
    ['entry', 'diary', 'noted'].flatMap((type) => [
      [type, [true, true]],
      [`${type}[]`, [true, true]],
    ]),
  ),
  'int[]': [false, false],
  int4range: [false, false],
}

test('a table is another once a label or a field has another name, however deep in the types of its columns', async () => {
  await world.sql(MAKES)
  const types = Object.keys(COLUMNS)
  const streams = types.map((_, at) => stream(`t${at}`, 'id'))
  for (const [at, type] of types.entries())
    await world.make(`CREATE TABLE t${at} (id int PRIMARY KEY, v ${type})`, `t${at}`)
  const known = async () => {
    const { incarnations } = await world.log.prepare({ capture: 'nested', streams, signal })
    return streams.map(({ table }) => incarnations?.find((one) => one.table === table)?.incarnation)
  }
  const others = (was: readonly unknown[], now: readonly unknown[]) => types.filter((_, at) => was[at] !== now[at])
  const first = await known()
  assert.deepEqual(others(first, await known()), [])
  await world.sql("ALTER TYPE mood RENAME VALUE 'glad' TO 'merry'")
  const second = await known()
  assert.deepEqual(
    others(first, second),
    types.filter((type) => COLUMNS[type]?.[0]),
  )
  await world.sql('ALTER TYPE entry RENAME ATTRIBUTE n TO count')
  assert.deepEqual(
    others(second, await known()),
    types.filter((type) => COLUMNS[type]?.[1]),
  )
  await world.log.release({ capture: 'nested', signal })
})
