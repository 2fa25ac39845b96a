import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { type Json, valueAt } from './problem.ts'
import { readYaml, YAML_LIMITS, type YamlFile } from './read-yaml.ts'

function read(text: string | Uint8Array): YamlFile {
  const reading = readYaml('output', typeof text === 'string' ? Buffer.from(text) : text)
  assert.ok(reading.ok, JSON.stringify(reading))
  return reading.file
}

/** The first problem as `line:column message`. */
function refusal(text: string | Uint8Array): string {
  const reading = readYaml('output', typeof text === 'string' ? Buffer.from(text) : text)
  assert.ok(!reading.ok, 'the file is refused')
  const [problem] = reading.problems
  return `${problem?.line}:${problem?.column} ${problem?.message}`
}

describe('readYaml', () => {
  it('reads the core schema and nothing of older ones', () => {
    const text =
      'a: yes\nb: true\nc: 0o7\nd: 0x1F\ne: 1.50\nf: ~\ng: 2026-01-31\nh: "7"\ni: 12345678901234567890\nj: 1e3\n'
    assert.deepEqual(read(text).value, {
      a: 'yes',
      b: true,
      c: 7,
      d: 31,
      e: 1.5,
      f: null,
      g: '2026-01-31',
      h: '7',
      i: '12345678901234567890',
      j: 1000,
    })
    assert.deepEqual(read('%YAML 1.1\n---\na: yes\n').value, { a: 'yes' })
  })

  it('takes no notice of a byte order mark and of comments', () => {
    const file = read('\ufeff# first\na: 1 # last\n')
    assert.deepEqual(file.value, { a: 1 })
    assert.deepEqual(file.locate(['a']), { line: 2, column: 4 })
  })

  it('knows where everything stands', () => {
    const file = read('a:\n  - b: 1\n    c: {d: [x, y]}\n  -\n')
    assert.deepEqual(file.locate(['a', 0, 'c', 'd', 1]), { line: 3, column: 16 })
    assert.deepEqual(file.locate(['a', 0, 'c'], true), { line: 3, column: 5 })
    assert.deepEqual(file.locate(['a', 0, 'missing']), { line: 2, column: 5 })
    assert.deepEqual(file.locate(['nowhere', 'at', 'all']), { line: 1, column: 1 })
  })

  it('unfolds aliases, and points to where they are used', () => {
    const file = read('a: &x {b: 1}\nc: *x\n')
    assert.deepEqual(file.value, { a: { b: 1 }, c: { b: 1 } })
    assert.deepEqual(file.locate(['c', 'b']), { line: 2, column: 4 })
  })

  it('says of nesting without end what it is, and nothing of the parser', () => {
    assert.match(refusal(`a: ${'['.repeat(50_000)}`), /^1:\d+ the YAML cannot be read: it is nested too deeply$/)
  })

  const refused: readonly (readonly [string, string | Uint8Array, string])[] = [
    ['an empty file', '', '1:1 the file is empty'],
    ['a file of comments', '# nothing\n---\n', '1:1 the file is empty'],
    ['bytes that are no UTF-8', Uint8Array.of(0x61, 0x3a, 0x20, 0xff), '1:1 the file is not UTF-8 text'],
    ['null bytes', 'a: 1\nb: \0', '2:4 the file holds a null byte'],
    ['null bytes that are written as escapes', 'a: "x\\0"', '1:4 the text holds a character that is not allowed'],
    ['halves of surrogate pairs', 'a: "\\uD800"', '1:4 the text holds a character that is not allowed'],
    ['a second document', 'a: 1\n---\nb: 2\n', '2:1 the file holds more than one document'],
    ['a key that stands there twice', 'a: 1\nb: 2\na: 3\n', '3:1 "a" stands here twice'],
    ['one that is written in two ways', 'a: 1\n"a": 3\n', '2:1 "a" stands here twice'],
    ['merge keys', 'a: &x {b: 1}\nc:\n  <<: *x\n', '3:3 merge keys are not understood'],
    ['tags of its own', 'a: !secret b', '1:12 YAML tags are not understood here'],
    ['tags of YAML', 'a: !!set {b, c}', '1:10 YAML tags are not understood here'],
    ['code in tags', 'a: !!js/function "x"', '1:18 YAML tags are not understood here'],
    ['__proto__', 'a: 1\n__proto__: {x: 1}\n', '2:1 unknown field "__proto__"'],
    ['keys that are no text', '? [a]\n: 1\n', '1:3 a key must be plain text'],
    ['an alias without anchor', 'a: *b\n', '1:4 no anchor &b stands before this alias'],
    ['an alias inside of its anchor', 'a: &x [*x]\n', '1:8 no anchor &x stands before this alias'],
    ['infinity', 'a: .inf', '1:4 infinity and NaN are not numbers here'],
    ['a file that is too large', `a: ${'x'.repeat(YAML_LIMITS.bytes)}`, '1:1 the file is larger than 256 KiB'],
  ]
  for (const [what, text, expected] of refused) {
    it(`refuses ${what}`, () => assert.equal(refusal(text), expected))
  }

  it('refuses syntax errors with their place and a hint', () => {
    const reading = readYaml('output', Buffer.from('a:\n\tb: 1\n'))
    assert.ok(!reading.ok)
    const [problem] = reading.problems
    assert.deepEqual([problem?.line, problem?.column, problem?.hint], [2, 1, 'Indent with spaces.'])
  })

  it('says what is no YAML in words, and in none of the parser’s', () => {
    const broken = [
      'name: [\n',
      'a: "x\n',
      'a: "\\q"\n',
      'a: b: c\n',
      'a: - b\n',
      'a: @b\n',
      'a: `b`\n',
      'a: %b\n',
      'a: {b: 1 c: 2}\n',
      'a: &x &y 1\n',
      'a: *\n',
      '%FOO\n---\na: 1\n',
      'a:\n  b: 1\n c: 2\n',
      'a: ]\n',
      'a: !!map [1]\n',
      'a: [\n- b\n]\n',
      '"a\n b": 1\n',
      `${'x'.repeat(1100)}: 1\n`,
      'a: &x\n&y b: 1\n',
    ]
    const seen = new Set<string>()
    for (const text of broken) {
      const reading = readYaml('product', Buffer.from(text))
      if (reading.ok) continue
      for (const { message } of reading.problems) {
        assert.doesNotMatch(
          message,
          /implicit|flow |block sequence|scalar|collection|token|\bnode\b|resolve|plain value/i,
          text,
        )
        seen.add(message)
      }
    }
    assert.ok(seen.size >= 8, [...seen].join('\n'))
  })

  it('refuses aliases that unfold to more than a file could hold', () => {
    const letters = 'abcdefghij'
    const line = (letter: string, index: number): string => {
      const parts = index === 0 ? Array(9).fill('x') : Array(9).fill(`*${letters[index - 1]}`)
      return `${letter}: &${letter} [${parts.join(', ')}]`
    }
    assert.match(refusal([...letters].map(line).join('\n')), /more than 100 aliases/)
    // Few aliases of a large list: what counts is what comes out.
    const large = `a: &a [${Array(2000).fill('x').join(',')}]\nb: [${Array(90).fill('*a').join(', ')}]`
    assert.match(refusal(large), /unfolds to too many values/)
  })

  it('refuses nesting that nobody writes by hand', () => {
    const nested = (depth: number): string => `${'['.repeat(depth)}${']'.repeat(depth)}`
    assert.ok(read(`a: ${nested(30)}`))
    assert.match(refusal(`a: ${nested(40)}`), /nested deeper than 32 levels/)
    assert.match(refusal(`${'['.repeat(100_000)}`), /./)
    assert.match(refusal(`${'- '.repeat(50_000)}a`), /./)
  })

  it('counts the parts of a file before it builds anything from them', () => {
    for (const piece of ['[,', '["a" ', '&a ', '{a: ', '#\n', '---\n']) {
      const flow = `[${piece.slice(1).repeat(Math.floor(250_000 / piece.length))}`
      assert.equal(
        refusal(piece.startsWith('[') ? flow : piece.repeat(250_000 / piece.length)),
        '1:1 the file has too many parts',
      )
    }
  })

  it('leaves prototypes alone', () => {
    const { value } = read('constructor: 1\ntoString: {valueOf: 2}\n')
    assert.equal(valueAt(value, ['constructor']), 1)
    assert.equal(valueAt(value, ['hasOwnProperty']), undefined)
    assert.equal(valueAt(read('a: 1').value, ['constructor', 'name']), undefined)
    assert.equal(({} as Record<string, Json>).x, undefined)
  })
})
