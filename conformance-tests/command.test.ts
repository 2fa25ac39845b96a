import assert from 'node:assert/strict'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { main } from './command.ts'

let folder: string

before(async () => {
  folder = await mkdtemp(join(tmpdir(), 'sluice-command-'))
  const saboteurs = JSON.stringify(new URL('./saboteurs/index.ts', import.meta.url).href)
  const fixture = JSON.stringify(new URL('./reference/conformance.ts', import.meta.url).href)
  await writeFile(join(folder, 'package.json'), '{"type":"module"}')
  await writeFile(join(folder, 'index.js'), `export { nullStorePlugin as default } from ${saboteurs}`)
  await writeFile(join(folder, 'conformance.js'), `export { start } from ${fixture}`)
})

after(() => rm(folder, { recursive: true, force: true }))

async function run(...args: string[]) {
  const lines: string[] = []
  const problems: string[] = []
  const code = await main(args, { line: (text) => lines.push(text), problem: (text) => problems.push(text) })
  return { code, text: lines.join('\n'), problems: problems.join('\n') }
}

const reference = new URL('./reference', import.meta.url).pathname

test('0 where every check holds, with reports', async () => {
  const report = join(folder, 'report')
  const { code, text } = await run(reference, '--only', '37,upsert-changes-only-key', '--seed', '7', '--report', report)
  assert.equal(code, 0)
  assert.match(text, /reference\/memory: 2 checks, 2 passed, .* \(level core, seed 7\)$/)
  const json = JSON.parse(await readFile(join(report, 'conformance.json'), 'utf8')) as { checks: { status: string }[] }
  assert.deepEqual(
    json.checks.map(({ status }) => status),
    ['passed', 'passed'],
  )
  assert.match(await readFile(join(report, 'conformance.xml'), 'utf8'), /<testsuite [^>]*tests="2" failures="0"/)
})

test('1 where one fails, saying what, where, why and the remedy', async () => {
  const report = join(folder, 'failed')
  const { code, text } = await run(folder, '--only', '37', '--report', report)
  assert.equal(code, 1)
  assert.match(text, /FAILED +37 upsert-last-wins\n.*\n +where: .*\n +why: .*\n +remedy: /)
  assert.match(
    await readFile(join(report, 'conformance.xml'), 'utf8'),
    /failures="1"[^]*<failure>the store shows other rows/,
  )
})

test('2 where it could not run', async () => {
  for (const args of [
    [],
    ['no-such-plugin'],
    [reference, '--level', 'some'],
    [reference, '--only', 'nothing'],
    [reference, '--seed', 'x'],
  ]) {
    const { code, problems } = await run(...args)
    assert.equal(code, 2, args.join(' '))
    assert.notEqual(problems, '')
  }
})
