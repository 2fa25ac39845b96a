/** A command starts as quickly as what it loads lets it: people wait for each, and scripts run hundreds. */
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { promisify } from 'node:util'

const run = promisify(execFile)

test('the command loads no package before it knows what is asked', async () => {
  const program = `
    import { registerHooks } from 'node:module'
    const packages = new Set()
    registerHooks({
      resolve(specifier, context, next) {
        if (!/^([./]|node:|file:)/.test(specifier)) packages.add(specifier)
        return next(specifier, context)
      },
    })
    await import(${JSON.stringify(new URL('./main.ts', import.meta.url).href)})
    console.log([...packages].join(' '))
  `
  const { stdout } = await run(process.execPath, ['--input-type=module', '-e', program])
  assert.equal(stdout.trim(), '')
})

test('a command that is told the server and the token reads no configuration', async () => {
  const server = createServer((_, response) => response.end('{"data":[],"next_cursor":null}'))
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const folder = await mkdtemp(join(tmpdir(), 'sluice-start-'))
  try {
    await writeFile(join(folder, 'sluice.yaml'), 'no_such_key: 1\n')
    const launcher = join(import.meta.dirname, '../../bin/sluice.js')
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
    const told = { PATH: process.env['PATH'] ?? '', SLUICE_URL: url, SLUICE_TOKEN: 'secret' }
    await run(process.execPath, [launcher, 'product', 'list'], { cwd: folder, env: told })
    const { SLUICE_TOKEN: _, ...untold } = told
    await assert.rejects(
      run(process.execPath, [launcher, 'product', 'list'], { cwd: folder, env: untold }),
      /no_such_key/,
    )
  } finally {
    server.close()
    await rm(folder, { recursive: true })
  }
})

test('a start says so before anything that takes time, and nothing else does', async () => {
  const launcher = join(import.meta.dirname, '../../bin/sluice.js')
  const begun = (...words: string[]) =>
    run(process.execPath, [launcher, ...words]).then(
      ({ stdout }) => stdout,
      ({ stdout }: { stdout: string }) => stdout,
    )
  const nowhere = ['--config', join(tmpdir(), 'no-such-folder', 'sluice.yaml')]
  assert.match(await begun('start', ...nowhere), /^Sluice is starting\.$/m)
  assert.match(await begun('start', '--help'), /^sluice start\n/)
  assert.equal(await begun('config', ...nowhere), '')
})

test('a start that has not come to the server yet ends when it is told to, also as the first process of a container', async () => {
  const launcher = join(import.meta.dirname, '../../bin/sluice.js')
  // Told at its first word, long before the server could take the signal.
  const told = `data:text/javascript,
    const write = process.stdout.write.bind(process.stdout);
    process.stdout.write = (...given) => write(...given) && process.kill(process.pid, process.env.TEST_SIGNAL)`
  for (const [signal, code] of [
    ['SIGTERM', 143],
    ['SIGINT', 130],
  ] as const) {
    const env = { ...process.env, TEST_SIGNAL: signal }
    const begun = run(process.execPath, ['--import', told, launcher, 'start', '--config', '/no-such.yaml'], { env })
    await assert.rejects(begun, { code })
  }
})

test('an output that takes nothing ends no start: what is wrong is said on the other', async () => {
  const launcher = join(import.meta.dirname, '../../bin/sluice.js')
  const command = ['-c', 'exec "$0" "$1" start --config /no-such.yaml > /dev/full', process.execPath, launcher]
  const begun = run('/bin/sh', command)
  await assert.rejects(begun, ({ code, stderr }: { code: number; stderr: string }) => {
    assert.match(stderr, /^sluice: .*no-such\.yaml/)
    assert.doesNotMatch(stderr, /ENOSPC|EPIPE|^ +at /m)
    return code === 1
  })
})
