/** The guides' blocks that name a file are compiled and run as they stand there. */
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { promisify } from 'node:util'
import { newPlugin } from '../runtime/src/command/plugin-package.ts'

const ROOT = join(import.meta.dirname, '..')
const COMPILER = join(ROOT, 'node_modules/typescript/bin/tsc')
const BLOCK = /^`([a-z.-]+\.ts)`:\n\n```ts\n([^]*?)^```$/gm

/** Inside of the repository, where the packages are found that a reader installs. */
let folder: string

before(async () => {
  await mkdir(join(ROOT, '.sluice'), { recursive: true })
  folder = await mkdtemp(join(ROOT, '.sluice/guide-'))
})

after(() => rm(folder, { recursive: true, force: true }))

const GUIDES = [
  { guide: 'write-a-store.md', kind: 'store', tests: 'conformance.test', atLeast: { files: 7, tests: 90 } },
  { guide: 'write-a-connector.md', kind: 'connector', tests: 'conformance.test', atLeast: { files: 5, tests: 61 } },
] as const

for (const { guide, kind, tests, atLeast } of GUIDES) {
  test(`${guide} leads to a ${kind} that passes its tests`, async () => {
    const text = await readFile(join(ROOT, 'docs/guides', guide), 'utf8')
    const blocks = [...text.matchAll(BLOCK)].map(([, name = '', code = '']) => [name, code] as const)
    assert.ok(blocks.length >= atLeast.files, `${guide} has only ${blocks.length} files`)
    assert.equal(text.match(/^```ts$/gm)?.length, blocks.length, `every block of ${guide} names its file`)
    const target = join(folder, `my-${kind}`)
    await newPlugin(target, kind)
    for (const [name, code] of blocks) await writeFile(join(target, name), code)
    await promisify(execFile)(process.execPath, [COMPILER, '-p', 'tsconfig.json'], { cwd: target })
    const { NODE_TEST_CONTEXT: _, ...env } = process.env
    const flags = ['--test', '--test-reporter=tap', `dist/${tests}.js`]
    const { stdout } = await promisify(execFile)(process.execPath, flags, { cwd: target, env, maxBuffer: 16 << 20 })
    assert.match(stdout, /^# fail 0$/m)
    assert.ok(Number(/^# pass (\d+)$/m.exec(stdout)?.[1]) >= atLeast.tests)
  })
}
