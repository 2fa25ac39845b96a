/** An error that is thrown away says why it may be: beside it, so that whoever reads the line need not guess. */
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { sourceFiles } from './sources.ts'

/** What is published with certificates is changed only together with them. */
const CERTIFIED = /^plugins\/(?:analytics|lookup|realtime|timeseries)|^examples\/plugins/
/** It is said above the function there. */
const SAID_ABOVE = ['stack/run.ts']
const FOLDERS =
  '{sdk,runtime/src,engine,iceberg,plugins,conformance-tests,packaging,docs,stack,prove,bench,deploy,examples,test,acceptance}'
const isTest = (path: string) => /\.(test|fixture|conformance)\.ts$|test-?(data|server|ing)\.ts$/.test(path)

/** Becomes nothing, in any of the forms that are written here; a block with a comment in it has its reason. */
const THROWN_AWAY =
  /\.catch\(\s*\(\w*\) => (?:undefined|\{\s*\}|null|void 0)\s*,?\s*\)|\bcatch(?: \(\w+\))? \{\s*(?:continue\s*)?\}/g
/** What is not there is nothing: the call's name says so. */
const IS_LOOKED_AT = /\b(?:readFile|stat|lstat|readdir|access|readlink|realpath)\(/
const LINES_ABOVE = 3

/** Numbers of lines, from 1. */
function unexplained(text: string): readonly number[] {
  const lines = text.split('\n')
  return [...text.matchAll(THROWN_AWAY)].flatMap(({ index }) => {
    const number = text.slice(0, index).split('\n').length
    const around = lines.slice(Math.max(0, number - 1 - LINES_ABOVE), number)
    const isExplained = around.some((line) => /\/\/ |\*\/|^\s*\* /.test(line))
    return isExplained || IS_LOOKED_AT.test(around.at(-1) ?? '') ? [] : [number]
  })
}

describe('errors that are thrown away', () => {
  test('each says why', () => {
    const found = sourceFiles([`${FOLDERS}/**/*.ts`])
      .filter(({ path }) => !isTest(path) && !CERTIFIED.test(path) && !SAID_ABOVE.includes(path))
      .flatMap(({ path, text }) => unexplained(text).map((line) => `${path}:${line}`))
    assert.deepEqual(found, [])
  })

  test('every form of it is seen', () => {
    for (const text of [
      'await stop().catch(() => undefined)',
      'await stop().catch(() => {})',
      'stop().catch((error) => null)',
      'try { stop() } catch {}',
      'try {\n  stop()\n} catch {\n}',
      'try {\n  stop()\n} catch (error) {\n  continue\n}',
    ])
      assert.equal(unexplained(text).length, 1, text)
    for (const text of [
      '// It is gone already.\nawait stop().catch(() => undefined)',
      'try {\n  stop()\n} catch {\n  // It is gone already.\n}',
      'try {\n  stop()\n} catch (error) {\n  throw gone(error)\n}',
      "const text = await readFile(file, 'utf8').catch(() => null)",
    ])
      assert.deepEqual(unexplained(text), [], text)
  })
})

/** A program of readers, which has its own. */
const OF_READERS = 'runtime/src/command/templates/'

test('an error of the contract is known in any copy of the SDK, since a plugin may bring its own', () => {
  const found = sourceFiles(['{runtime/src,iceberg}/**/*.ts'])
    .filter(({ path, text }) => !isTest(path) && !path.startsWith(OF_READERS) && /instanceof SluiceError\b/.test(text))
    .map(({ path }) => path)
  assert.deepEqual(found, [])
})
