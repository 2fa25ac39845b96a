import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { EXAMPLES, type ExampleName, exampleContext, exampleFiles } from './examples.ts'
import { type ManifestFiles, parseManifests } from './parse-manifests.ts'
import {
  isJsonObject,
  type Json,
  type JsonObject,
  MANIFEST_NAMES,
  type ManifestName,
  type Path,
  type Problem,
  valueAt,
} from './problem.ts'
import { readYaml } from './read-yaml.ts'

/** Either it is fine, or there is something to say about it, and each thing has a place in a file. */
function assertAnswered(files: ManifestFiles, example: ExampleName): void {
  const parsed = parseManifests(files, exampleContext(example))
  if (parsed.ok) {
    assert.deepEqual(JSON.parse(JSON.stringify(parsed.manifests)), parsed.manifests)
    assert.match(parsed.manifests.digest, /^[0-9a-f]{64}$/)
  } else {
    assert.ok(parsed.problems.length > 0)
  }
  for (const problem of [...parsed.problems, ...parsed.warnings]) assertPlaced(problem, files[problem.manifest])
}

function assertPlaced(problem: Problem, bytes: Uint8Array | undefined): void {
  const lines = new TextDecoder().decode(bytes ?? new Uint8Array()).split('\n')
  const said = JSON.stringify(problem)
  assert.ok(problem.message.length > 0 && problem.message.length < 1000, said)
  assert.ok(Number.isInteger(problem.line) && problem.line >= 1 && problem.line <= lines.length, said)
  const line = lines[problem.line - 1] ?? ''
  assert.ok(Number.isInteger(problem.column) && problem.column >= 1 && problem.column <= line.length + 1, said)
}

const examples = fc.constantFrom(...(Object.keys(EXAMPLES) as ExampleName[]))
const names = fc.constantFrom(...MANIFEST_NAMES)

/** Pieces that mean something to YAML, to the schemas or to JavaScript. */
const piece = fc.constantFrom(
  ...[
    '\n',
    '  ',
    ': ',
    '- ',
    '[',
    ']',
    '{',
    '}',
    ',',
    '"',
    "'",
    '#',
    '&a ',
    '*a',
    '!x ',
    '|',
    '>',
    '?',
    '---\n',
    '\t',
    '~',
    '<<: ',
  ],
  ...[
    'null',
    'true',
    '1',
    '-1',
    '.inf',
    '1e400',
    '99999999999999999999',
    '__proto__',
    'constructor',
    'length',
    '\0',
    '\ufeff',
    '\ud83d\ude00',
  ],
  ...[
    'name',
    'columns',
    'type',
    'config',
    'decimal(5,2)',
    'bucket[0]',
    '{a}',
    '{{this}}',
    'type_2',
    'identity',
    'x'.repeat(300),
  ],
)

/** One change: some characters go, a piece comes, or a line is put elsewhere. */
const mutation = fc.record({
  kind: fc.constantFrom('replace', 'insert', 'delete', 'move line', 'drop line'),
  at: fc.double({ min: 0, max: 1, noNaN: true }),
  to: fc.double({ min: 0, max: 1, noNaN: true }),
  length: fc.integer({ min: 1, max: 12 }),
  piece,
})

type Mutation = typeof mutation extends fc.Arbitrary<infer T> ? T : never

function mutated(text: string, { kind, at, to, length, piece: put }: Mutation): string {
  const from = Math.floor(at * text.length)
  if (kind === 'insert') return text.slice(0, from) + put + text.slice(from)
  if (kind === 'delete') return text.slice(0, from) + text.slice(from + length)
  if (kind === 'replace') return text.slice(0, from) + put + text.slice(from + length)
  const lines = text.split('\n')
  const [line = ''] = lines.splice(Math.floor(at * (lines.length - 1)), 1)
  if (kind === 'move line') lines.splice(Math.floor(to * lines.length), 0, line)
  return lines.join('\n')
}

/** Values of every shape, right here and wrong there. */
const odd: fc.Arbitrary<Json> = fc.oneof(
  fc.constantFrom<Json>(
    null,
    true,
    0,
    -1,
    1.5,
    1e300,
    '',
    'id',
    'constructor',
    '{a}:{b}',
    'type_2',
    [],
    {},
    [[]],
    [null],
  ),
  fc.constantFrom<Json>(
    [1, 1],
    { name: 1 },
    { column: [] },
    [{ name: 'x' }],
    [{ type: 'lookup', config: [] }],
    'x'.repeat(5000),
  ),
  fc.jsonValue({ maxDepth: 2 }) as fc.Arbitrary<Json>,
)

function pathsOf(value: Json, path: Path): readonly Path[] {
  const steps = Array.isArray(value) ? [...value.keys()] : isJsonObject(value) ? Object.keys(value) : []
  return [path, ...steps.flatMap((step) => pathsOf(valueAt(value, [step]) ?? null, [...path, step]))]
}

function withValue(root: Json, [step, ...rest]: Path, value: Json): Json {
  if (step === undefined) return value
  const inner = withValue(valueAt(root, [step]) ?? null, rest, value)
  return Array.isArray(root) ? root.with(Number(step), inner) : { ...(root as JsonObject), [step]: inner }
}

const loaded = new Map<ExampleName, Record<ManifestName, Uint8Array>>()
for (const name of Object.keys(EXAMPLES) as ExampleName[]) loaded.set(name, await exampleFiles(name))

function filesOf(example: ExampleName): Record<ManifestName, Uint8Array> {
  const files = loaded.get(example)
  assert.ok(files)
  return { ...files }
}

describe('parseManifests answers', () => {
  it('whatever bytes a file holds', () => {
    fc.assert(
      fc.property(examples, names, fc.uint8Array({ maxLength: 200 }), (example, name, bytes) => {
        assertAnswered({ ...filesOf(example), [name]: bytes }, example)
      }),
      { numRuns: 300 },
    )
  })

  it('whatever pieces of YAML a file is made of', () => {
    fc.assert(
      fc.property(examples, names, fc.array(piece, { maxLength: 30 }), (example, name, pieces) => {
        assertAnswered({ ...filesOf(example), [name]: Buffer.from(pieces.join('')) }, example)
      }),
      { numRuns: 300 },
    )
  })

  it('whatever value stands in the place of a file', () => {
    fc.assert(
      fc.property(examples, names, fc.jsonValue({ maxDepth: 4 }), (example, name, value) => {
        assertAnswered({ ...filesOf(example), [name]: Buffer.from(JSON.stringify(value)) }, example)
      }),
      { numRuns: 200 },
    )
  })

  it('whatever stands in the place of one value of a file', () => {
    fc.assert(
      fc.property(examples, names, fc.nat(), odd, (example, name, at, value) => {
        const reading = readYaml(name, filesOf(example)[name])
        assert.ok(reading.ok)
        const paths = pathsOf(reading.file.value, [])
        const content = withValue(reading.file.value, paths[at % paths.length] ?? [], value)
        assertAnswered({ ...filesOf(example), [name]: Buffer.from(JSON.stringify(content)) }, example)
      }),
      { numRuns: 600 },
    )
  })

  it('whatever happens to files that were right', () => {
    fc.assert(
      fc.property(examples, fc.array(fc.tuple(names, mutation), { minLength: 1, maxLength: 4 }), (example, changes) => {
        const files = filesOf(example)
        for (const [name, change] of changes) {
          files[name] = Buffer.from(mutated(Buffer.from(files[name]).toString(), change))
        }
        assertAnswered(files, example)
      }),
      { numRuns: 600 },
    )
  })
})
