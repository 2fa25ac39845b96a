/** The guides' blocks that name a file are compiled and run as they stand there. */
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { promisify } from 'node:util'
import { SERVICE_KINDS, type ServiceKind } from '@sluice/sdk'
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

/** Of each kind of service its guide, and the example whose module and manifest stand there. */
const SERVICE_GUIDES: Readonly<Record<ServiceKind, { readonly guide: string; readonly example: string }>> = {
  compute: { guide: 'write-a-compute.md', example: 'python-compute' },
  dashboard: { guide: 'write-a-dashboard-driver.md', example: 'pages' },
  'event-bus': { guide: 'write-an-event-bus.md', example: 'redis-streams' },
  'object-store': { guide: 'write-an-object-store.md', example: 'webdav' },
}

for (const kind of SERVICE_KINDS) {
  const { guide, example } = SERVICE_GUIDES[kind]
  test(`${guide} is of one shape with its neighbours, and shows its example as it is`, async () => {
    const text = await readFile(join(ROOT, 'docs/guides', guide), 'utf8')
    assert.deepEqual(
      text.match(/^## .*$/gm),
      ['Who does what', 'What you export', 'Run it', 'Prove it'].map((of) => `## ${of}`),
    )
    const inExample = (name: string) => readFile(join(ROOT, 'examples/plugins', example, name), 'utf8')
    const [[, name, code] = []] = text.matchAll(BLOCK)
    assert.deepEqual([name, code], ['index.ts', await inExample('index.ts')])
    const [, manifest = ''] = /^```json\n"sluice": (.*)\n```$/m.exec(text) ?? []
    const { sluice } = JSON.parse(await inExample('package.json')) as { readonly sluice: unknown }
    assert.deepEqual(JSON.parse(manifest), sluice)
    assert.match(await inExample('README.md'), new RegExp(`guides/${guide}`))
    const kinds = await readFile(join(ROOT, 'sdk/README.md'), 'utf8')
    assert.match(kinds, new RegExp(`^\\| \`${kind}\`.*\`${guide}\`.*\`examples/plugins/${example}\``, 'm'))
  })
}
