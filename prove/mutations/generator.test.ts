import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import { parseAllDocuments } from 'yaml'
import { Random } from '../../conformance-tests/random.ts'
import { drawMutations } from './draw.ts'
import { applied, type Mutation, mutationOf, offsetOf } from './mutation.ts'
import { mutationsOf } from './sources.ts'
import { tokensOf } from './tokens.ts'

const ROOT = join(import.meta.dirname, '../..')
const FILES = [
  ...['prove/mutations/sql.ts', 'prove/mutations/tokens.ts', 'runtime/src/registry/endpoint-states.ts'],
  ...['runtime/bin/sluice.js', 'runtime/src/manifest/examples/customers/compute.yaml', 'stack/catalog/clients.py'],
]

const read = (file: string) => readFileSync(join(ROOT, file), 'utf8')
const told = (file: string, text: string) => mutationsOf(file, text).map(({ from, to }) => `${from}>${to}`)

describe('mutations of TypeScript', () => {
  const of = (text: string) => told('a.ts', text)

  test('operators, numbers, truths, negations, waits and what is returned', () => {
    assert.deepEqual(of('if (a < b && !c) d = 1_0'), ['<><=', '&&>||', '!>', '1_0>11', '1_0>9'])
    assert.deepEqual(of('const a = (await b()) === true'), ['await >', '===>!==', 'true>false'])
    assert.deepEqual(of('function f() {\n  return this.a(b)\n}'), ['return>return !'])
    assert.deepEqual(of('const a = b + c * -d'), ['+>-', '*>/'])
  })

  test('nothing of types, comments, texts and regular expressions', () => {
    assert.deepEqual(of("type A = Map<'x', 1> // a < b\nconst a: 1 | true = b as 2"), [])
    assert.deepEqual(of('const a = "x < 1 and y" + b + `c && ' + '$' + '{d}`'), [])
    assert.deepEqual(of('const a = /b < 1/.test(c)'), [])
    assert.deepEqual(of('function* a() { for await (const b of c) yield* b.toString() }'), [])
  })

  test('a hole of a template is code, and the text around it SQL or none', () => {
    const hole = '$' + '{a < b}'
    assert.deepEqual(of(`const s = \`select 1 from t where x >= ${hole} and not y\``), [
      ...['1>2', '>=>>', '<><=', 'and>or', 'not>'],
    ])
    assert.deepEqual(of("const s = 'update t set a = $1 where b = $2 and c'"), ['=><>', 'and>or'])
  })
})

describe('mutations of other sources', () => {
  test('values of YAML and no keys, and SQL in a block', () => {
    const text = 'on: true\nmany: [7, a b, word]\nsql: |\n  SELECT a FROM b ORDER BY c DESC\n'
    assert.deepEqual(told('a.yaml', text), ['true>false', '7>8', 'word>wordx', 'DESC>asc'])
  })

  test('Python without comments and texts', () => {
    const text = '# a < b\nif a <= 1 and not b == "c < d":\n    f(-1)\nq = "select a from b limit 3"\n'
    assert.deepEqual(told('a.py', text), ['<=><', '1>2', 'and>or', '==>!=', '1>2', '3>4'])
  })
})

describe('every mutant', () => {
  test('says where it is, and can be applied only to what it was made from', () => {
    const text = 'a\nb = c < d\n'
    const mutation = mutationOf('a.ts', text, { at: 8, from: '<', to: '<=', kind: 'typescript' })
    assert.deepEqual([mutation.line, mutation.column, offsetOf(text, mutation)], [2, 7, 8])
    assert.equal(applied(text, mutation), 'a\nb = c <= d\n')
    assert.throws(() => applied(`a\n${text}`, mutation), /a\.ts:2:7 "<" → "<=": something else stands there/)
  })

  test('differs from its source by one token, and is one that can be read', () => {
    for (const mutation of FILES.flatMap((file) => mutationsOf(file, read(file)))) checkMutant(mutation)
  })

  test('is drawn again by the same seed, and no other is', () => {
    const draw = (seed: number) => drawMutations({ root: ROOT, files: FILES }, 40, new Random(seed))
    assert.deepEqual(draw(7), draw(7))
    assert.notDeepEqual(draw(7), draw(8))
    assert.equal(new Set(draw(7).map((one) => JSON.stringify(one))).size, 40)
    const many = [...Array(20).keys()].flatMap(draw)
    assert.equal(new Set(many.map(({ kind }) => kind)).size, 5)
  })
})

function checkMutant(mutation: Mutation): void {
  const source = read(mutation.file)
  const mutant = applied(source, mutation)
  if (mutation.file.endsWith('.yaml')) {
    assert.deepEqual(
      [parseAllDocuments(mutant)].flat().flatMap(({ errors }) => errors),
      [],
    )
  }
  if (!/\.[jt]s$/.test(mutation.file)) return
  const texts = (text: string) => tokensOf(text).map((token) => token.text)
  const [before, after] = [texts(source), texts(mutant)]
  const same = before.findIndex((token, index) => token !== after[index])
  const sameBehind = before.toReversed().findIndex((token, index) => token !== after.toReversed()[index])
  assert.ok(before.length - same - sameBehind <= 1, `${mutation.file}:${mutation.line} changes more than a token`)
  assert.ok(Math.abs(before.length - after.length) <= 1)
}
