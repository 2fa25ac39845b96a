import assert from 'node:assert/strict'
import { test } from 'node:test'
import { jsonRows } from './json-rows.ts'

type Random = (below: number) => number

/** A linear congruential generator: the same world for the same seed. */
function randomOf(seed: number): Random {
  let state = seed
  return (below) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return Math.floor((state / 2 ** 32) * below)
  }
}

const TEXTS = [
  '',
  'plain',
  '"',
  '\\',
  '\\"',
  '\\\\',
  '{}',
  ']',
  ',',
  ':',
  '\n\t',
  'ünïcödé 😀',
  '\u0000',
  '"id":1',
  ' 1 ',
]

function valueOf(random: Random, depth = 0): unknown {
  const kind = random(depth > 2 ? 4 : 6)
  if (kind === 0) return null
  if (kind === 1) return random(2) === 0
  if (kind === 2) return random(1e6) / 7
  if (kind === 3) return TEXTS[random(TEXTS.length)]
  const count = random(4)
  if (kind === 4) return Array.from({ length: count }, () => valueOf(random, depth + 1))
  return Object.fromEntries(
    Array.from({ length: count }, (_, at) => [TEXTS[(at * 5) % 15], valueOf(random, depth + 1)]),
  )
}

/** The same value with blanks wherever JSON allows some, and signs written as their numbers. */
function spelled(random: Random, value: unknown): string {
  const gap = () => [' ', '', '\n', '\t ', ''][random(5)] as string
  if (Array.isArray(value))
    return `[${gap()}${value.map((one) => spelled(random, one)).join(`${gap()},${gap()}`)}${gap()}]`
  if (typeof value === 'object' && value !== null) {
    const members = Object.entries(value).map(
      ([name, one]) => `${spelled(random, name)}${gap()}:${gap()}${spelled(random, one)}`,
    )
    return `{${gap()}${members.join(`${gap()},${gap()}`)}${gap()}}`
  }
  if (typeof value === 'string' && random(2) === 0)
    return `"${[...value]
      .flatMap((sign) => sign.split(''))
      .map((unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`)
      .join('')}"`
  return JSON.stringify(value)
}

test('rows and their members are what a parser of JSON finds, however they are written', () => {
  const random = randomOf(20_261)
  for (let world = 0; world < 2000; world += 1) {
    const names = ['id', 'k\\"ey', 'ünï'].slice(0, 1 + random(3))
    const others = ['a', 'Id', 'idx', 'id ', '"'].slice(0, random(6))
    const columns = [...names, ...others].toSorted(() => random(3) - 1)
    const rows = Array.from({ length: random(5) }, () =>
      Object.fromEntries(columns.map((name) => [name, valueOf(random)])),
    )
    const without = new Set(names.filter(() => random(2) === 0))
    const found = jsonRows(spelled(random, rows), names, without)
    const parsed = found.map(({ text, values }) => ({
      row: JSON.parse(text) as unknown,
      order: Object.keys(JSON.parse(text) as object),
      values: values.map((one) => JSON.parse(one) as unknown),
    }))
    const expected = rows.map((row) => ({
      row: Object.fromEntries(Object.entries(row).filter(([name]) => !without.has(name))),
      order: columns.filter((name) => !without.has(name)),
      values: names.map((name) => row[name]),
    }))
    assert.deepEqual(parsed, expected, `world ${world}`)
  }
})

test('a row that nothing leaves is the text that the store wrote', () => {
  const texts = ['{"id":1,"at":"2024-01-01"}', '{ "id" : 2 , "at" : null }']
  const found = jsonRows(`[${texts.join(',')}]`, ['id'], new Set())
  assert.deepEqual(found, [
    { text: texts[0], values: ['1'] },
    { text: texts[1], values: ['2'] },
  ])
})

test('what is no array of objects with these members is refused', () => {
  const whole = '[{"id":1,"a":{"b":[1,"x\\\\"]}}]'
  for (let length = 0; length < whole.length; length += 1) {
    assert.throws(() => jsonRows(whole.slice(0, length), ['id'], new Set()), /a store gave/, whole.slice(0, length))
  }
  for (const text of ['{}', 'null', '[1]', '[{"a":1}]', '[{}]', '[{"id":1} {"id":2}]', '[{"id"}]', '[{id:1}]']) {
    assert.throws(() => jsonRows(text, ['id'], new Set()), /a store gave/, text)
  }
})
