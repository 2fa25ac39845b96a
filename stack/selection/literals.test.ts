import assert from 'node:assert/strict'
import { test } from 'node:test'
import { importsOf, sourceFiles } from '../../test/sources.ts'
import { scan } from './literals.ts'

const textsIn = (code: string) => scan(code).literals.map(({ text }) => text)

test('finds literals of every kind, and what templates hold', () => {
  assert.deepEqual(textsIn(`f('a', "b", 'it\\'s', \`c\`)`), ['a', 'b', "it\\'s", 'c'])
  assert.deepEqual(textsIn(`\`a/\${x ? \`b/\${y}\` : { z: "c" }.z}/d\``), ['a/', 'b/', '', 'c', '/d'])
  assert.deepEqual(
    scan(`\`a/\${x}/b\``).literals.map(({ isAfterValue, isBeforeValue }) => [isAfterValue, isBeforeValue]),
    [
      [false, true],
      [true, false],
    ],
  )
})

test('leaves comments out, and takes no comment or literal from a regular expression or a literal', () => {
  assert.deepEqual(textsIn(`// 'a'\n/* 'b' */ 'c'`), ['c'])
  assert.deepEqual(textsIn(`x.replace(/['"\`]/g, 'a'); const y = 4 / 2 / 'b'.length; f(/[/'*]/, 'c')`), ['a', 'b', 'c'])
  assert.deepEqual(textsIn(`'http://x' + 'y'; \`/* \${a} // \`; 'z'`), ['http://x', 'y', '/* ', ' // ', 'z'])
  assert.equal(scan(`f() // the caller's\n`).code.trim(), 'f()')
})

test('understands every source of this repository', () => {
  for (const { path, text } of sourceFiles(['{sdk,plugins,runtime,conformance-tests,stack,test,acceptance}/**/*.ts'])) {
    const { isWhole, literals } = scan(text)
    const found = literals.map((literal) => literal.text)
    assert.ok(isWhole, path)
    // Programs inside of literals import, too.
    const missed = importsOf(text).filter(
      (specifier) => !found.some((one) => one.includes(specifier.split('$')[0] ?? '')),
    )
    assert.deepEqual(missed, [], path)
  }
})
