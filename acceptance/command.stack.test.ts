/** The `sluice` command against a running server: what it prints, and how it ends. */
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { mkdtemp, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { manifests } from './client.ts'
import { type Ended, LAUNCHER, runSluice } from './sluice-command.ts'
import { loginOf, openWorld, type World } from './world.ts'

let world: World
let folder = ''
let tenant = ''
let token = ''

before(async () => {
  world = await openWorld()
  folder = await mkdtemp(join(tmpdir(), 'sluice-command-'))
  tenant = world.tenants[0]
  await world.source.query(`DROP TABLE IF EXISTS command_people;
    CREATE TABLE command_people (id integer PRIMARY KEY, email text, city text);
    INSERT INTO command_people SELECT i, 'c' || i || '@c.test', 'city ' || i FROM generate_series(1, 30) i`)
  await world.createTenant(tenant)
  token = await world.deployment.printedToken(['--tenant', tenant, '--group', 'svc-developers', '--user', 'dora'])
})

after(async () => {
  await world?.close()
  await rm(folder, { recursive: true, force: true })
})

function sluice(words: readonly string[], bearer = token): Promise<Ended> {
  return runSluice(words, { url: world.deployment.url, token: bearer, cwd: folder })
}

/** Exit code and what was said where standard output goes there, or to a reader who has gone: `1 sluice: …` */
function into(where: '/dev/full' | 'closed', words: readonly string[]): Promise<string> {
  const command = [process.execPath, LAUNCHER, ...words].map((word) => `'${word.replaceAll("'", "'\\''")}'`).join(' ')
  const shell = where === 'closed' ? `(${command}; echo $? >&3) | :` : `${command} > ${where}; echo $? >&3`
  const env = { ...process.env, SLUICE_URL: world.deployment.url, SLUICE_TOKEN: token }
  return new Promise((resolve) => {
    const child = spawn('bash', ['-c', shell], { env, cwd: folder, stdio: ['ignore', 'ignore', 'pipe', 'pipe'] })
    let [err, code] = ['', '']
    child.stdio[2]?.on('data', (chunk: Buffer) => (err += chunk))
    child.stdio[3]?.on('data', (chunk: Buffer) => (code += chunk))
    child.once('close', () => resolve(`${code.trim()} ${err}`))
  })
}

async function done(...words: string[]): Promise<string> {
  const { code, out, err } = await sluice(words)
  assert.equal(code, 0, `${words.join(' ')}: ${err}`)
  return out
}

describe('the command', () => {
  it('tells what it can do, of each command too', async () => {
    const help = await done('help')
    for (const name of [
      'token',
      'tenant create',
      'connection test',
      'product lint',
      'sync',
      'query',
      'logs',
      'config',
    ]) {
      assert.ok(help.includes(`sluice ${name}`), name)
    }
    assert.match(await done('product', '--help'), /product rollback/)
    assert.equal(await done('-h'), help)
    assert.match(await done('product', 'deploy', '--help'), /--version +a semantic version/)
  })

  it('ends with 2 for wrong use, and says what was meant', async () => {
    for (const words of [
      ['nonsense'],
      ['tenant', 'create'],
      ['sync'],
      ['query', 'SELECT 1', '--formt', 'csv'],
      ['token', '--ttl', 'x', '--tenant', 'a', '--user', 'b'],
    ]) {
      const { code, err } = await sluice(words)
      assert.equal(code, 2, `${words.join(' ')}: ${err}`)
    }
    assert.match((await sluice(['query', 'SELECT 1', '--formt', 'csv'])).err, /did you mean --format/)
    for (const [words, said] of [
      [
        ['prodct', 'list'],
        /^sluice: there is no command "prodct list"; did you mean "product list"\?\n\nsluice help lists/,
      ],
      [['snapshots', 'x'], /^sluice: there is no command "snapshots x"\n\n {2}sluice product snapshots PRODUCT/],
      [['keys', 'rotate'], /did you mean "keys rotate-master"\?/],
      [['query', 'SELECT', '1'], /"1" is a word too many; what holds blanks belongs in quotes/],
      [['grant', 'add', 'crm.people', '--user', 'vera'], /--to USER or --team TEAM is needed; --user says as whom/],
      [['product', 'lint', 'absent'], /the folder absent cannot be read: it does not exist/],
      [['product', 'list', '--url', 'nonsense'], /--url is an address such as http/],
    ] as const) {
      const { code, err } = await sluice(words)
      assert.deepEqual([code, said.test(err)], [2, true], err)
    }
    await writeFile(join(folder, 'broken.json'), '{"password": "geheim"')
    for (const file of ['absent.json', 'broken.json']) {
      const { code, err } = await sluice(['connection', 'create', 'db', '--config-file', file])
      assert.equal(code, 2, err)
      assert.match(err, new RegExp(`^sluice: ${file} .*(cannot be read|not a JSON object)`))
      assert.doesNotMatch(err, /ENOENT|geheim/)
    }
  })

  it('walks a product from an empty folder to rows', async () => {
    await writeFile(join(folder, 'login.json'), loginOf(world.deployment))
    assert.match(await done('connection', 'create', 'db', '--config-file', 'login.json'), /^connection +type/)
    assert.match(await done('connection', 'test', 'db'), /auth +ok/)
    assert.match(await done('connection', 'discover', 'db'), /public\.command_people +table/)
    assert.match(await done('sync', 'db'), /Nothing was ingested/)
    await done('product', 'init', 'people')
    const again = await sluice(['product', 'init', 'people'])
    assert.deepEqual([again.code, /product\.yaml is there already/.test(again.err)], [2, true], again.err)
    const broken = await sluice(['product', 'lint', 'people'])
    assert.equal(broken.code, 0, broken.err)
    for (const [name, text] of Object.entries(manifests('public.command_people'))) {
      await writeFile(join(folder, 'people', `${name}.yaml`), text)
    }
    assert.match(await done('product', 'lint', 'people'), /valid/)
    const plan = await done('product', 'plan', 'people', '--version', '1.0.0')
    assert.match(plan, /Verdict: initial/)
    assert.match(plan, /lookup \(masked\): create/)
    const digest = /--digest (\w+)/.exec(plan)?.[1] ?? ''
    const deploy = ['product', 'deploy', 'people', '--version', '1.0.0', '--digest']
    assert.match((await sluice([...deploy, 'another'])).err, /plan_changed/)
    assert.match(await done(...deploy, digest), /Version 1\.0\.0 is deployed/)
    const { code, out, err } = await sluice(['sync', 'db'])
    assert.equal(code, 0, err)
    assert.match(out, /public\.command_people +\w+ +30 +30/)
    assert.match(err, /succeeded, 1\/1 tables, 30 rows/)
    assert.ok(!err.includes('\u001b'), 'plain lines where there is no terminal')
    assert.match(await done('product', 'list'), /crm\.people +deployed +1\.0\.0/)
    const digits = await done(
      'query',
      `SELECT 1e21 AS a, '{"b":[1.10,9007199254740993]}'::JSON AS c, -0.0::DOUBLE AS d`,
    )
    assert.match(digits, /1e\+21 +{"b":\[1\.10,9007199254740993]} +/)
    const table = await done('query', 'SELECT id, email FROM crm.people ORDER BY id LIMIT 2')
    assert.match(table, /^id +email \(masked\)\n1 +[0-9a-f]+\n2 /)
    assert.match(table, /2 rows in \d+ ms/)
    // Whoever made connection and product finds the way to clear values in the answer itself.
    const [, hinted = ''] = /^ {2}sluice (grant add .*)$/m.exec(table) ?? []
    assert.match(hinted, /^grant add crm\.people --to dora --unmask '\*'$/)
    assert.match(await done(...hinted.replaceAll("'", '').split(' ')), /user dora +unmask/)
    const clear = await done('query', 'SELECT id, email FROM crm.people ORDER BY id LIMIT 1')
    assert.match(clear, /^id +email\n1 +c1@c\.test\n/)
    assert.doesNotMatch(clear, /grant add/)
  })

  it('makes keys for applications, lists and revokes them', async () => {
    const made = await done('application-key', 'create', 'shop', '--products', 'crm.people', '--for', 'query')
    const [key = ''] = made.split('\n')
    assert.match(made, /^slk_\w+\n\nThis is shown once\./)
    const ask = () => sluice(['query', 'SELECT email FROM crm.people'], key)
    const { code, out } = await ask()
    assert.deepEqual([code, /^email \(masked\)\n/.test(out), /grant add/.test(out)], [0, true, false], out)
    const listed = await done('application-key', 'list')
    const [, id = ''] = /^shop .* query .* (key_\w+)$/m.exec(listed) ?? []
    assert.ok(made.includes(id) && !listed.includes(key))
    assert.match((await sluice(['sync', 'db'], key)).err, /key_not_allowed/)
    await done('application-key', 'revoke', id)
    assert.match((await ask()).err, /token_invalid/)
    assert.match(await done('application-key', 'revoke', '--made-by', 'dora'), /dora has made no keys/)
  })

  it('gives rows in other formats, and to files', async () => {
    const sql = 'SELECT id, city FROM crm.people WHERE id < 3 ORDER BY id'
    assert.deepEqual(JSON.parse(await done('query', sql, '--json')).rows, [
      [1, 'city 1'],
      [2, 'city 2'],
    ])
    assert.equal((await done('query', sql, '--format', 'ndjson')).trim().split('\n').length, 2)
    await done('query', sql, '--format', 'csv', '--output', 'rows.csv')
    assert.match(await readFile(join(folder, 'rows.csv'), 'utf8'), /^"?id"?,"?city"?\r?\n1,/)
    await done('query', sql, '--format', 'parquet', '--output', 'rows.parquet')
    assert.equal((await readFile(join(folder, 'rows.parquet'))).subarray(0, 4).toString(), 'PAR1')
  })

  it('says what a disk, a folder or a reader did not take, and nothing of what the system calls that', async () => {
    const sql = "SELECT i, repeat('x', 1000) AS long FROM range(3000) r(i)"
    for (const [words, said] of [
      [
        ['query', sql, '--format', 'csv', '--output', 'absent/rows.csv'],
        /absent\/rows\.csv cannot be written: there is no such folder/,
      ],
      [['query', sql, '--format', 'csv', '--output', '/dev/full'], /\/dev\/full lacks rows; the disk is full/],
      [['query', 'SELECT 1', '--json', '--output', '/dev/full'], /\/dev\/full lacks rows; the disk is full/],
      [['query', 'SELECT 1', '--json', '--output', '.'], /\. cannot be written: it is a folder/],
      [['product', 'init', 'login.json'], /login\.json: something else is there/],
      [['product', 'init', 'login.json/x'], /login\.json\/x: it, or what it should lie in, is no folder/],
    ] as const) {
      const { code, err } = await sluice(words)
      assert.deepEqual([code, said.test(err)], [1, true], err)
      assert.doesNotMatch(err, /\bE[A-Z]{4,}\b|\n +at /)
    }
    assert.match(await into('/dev/full', ['help']), /^1 sluice: what is printed: the disk is full\n$/)
    assert.match(await into('/dev/full', ['product', 'list']), /^1 sluice: what is printed: the disk is full\n$/)
    // Who has enough, as `head` does, is told no more.
    for (const words of [
      ['query', sql, '--json'],
      ['query', sql, '--format', 'csv'],
      ['query', sql],
      ['config', '--explain'],
    ]) {
      assert.equal(await into('closed', words), '1 ', words.join(' '))
    }
  })

  it('names the files that a folder of manifests lacks, and what they were probably meant to be', async () => {
    const name = (part: string) => join(folder, 'people', part)
    await rename(name('serving.yaml'), name('serving.yml'))
    await rename(name('quality.yaml'), name('qualty.yaml'))
    for (const words of [['lint'], ['plan', '--version', '1.0.0'], ['deploy', '--version', '1.0.0']]) {
      const [what = '', ...flags] = words
      const { code, err } = await sluice(['product', what, 'people', ...flags])
      assert.equal(code, 2, err)
      assert.match(err, /people lacks quality\.yaml \(it has qualty\.yaml\), serving\.yaml \(it has serving\.yml\)/)
    }
    await rename(name('serving.yml'), name('serving.yaml'))
    await rename(name('qualty.yaml'), name('quality.yaml'))
    const product = await readFile(name('product.yaml'), 'utf8')
    await writeFile(name('product.yaml'), `${product}\nbroken: [\n`)
    const { code, err } = await sluice(['product', 'plan', 'people', '--version', '1.0.0'])
    assert.deepEqual([code, /product\.yaml:\d+:\d+ the YAML cannot be read: .*bracket/.test(err)], [1, true], err)
    await writeFile(name('product.yaml'), product)
    for (const [made, called] of [
      ['2024 Ümsätze!', 'ms_tze'],
      ['__', 'my_product'],
    ] as const) {
      assert.match(await done('product', 'init', made), /Six manifests are in/)
      assert.match(await readFile(join(folder, made, 'product.yaml'), 'utf8'), new RegExp(`^name: ${called}$`, 'm'))
      await done('product', 'lint', made)
    }
  })

  it('names problems of manifests by file, line and column, with and without a server', async () => {
    const file = join(folder, 'people', 'output.yaml')
    const good = await readFile(file, 'utf8')
    await writeFile(file, good.replace('type: integer', 'type: integr'))
    for (const words of [
      ['product', 'lint', 'people'],
      ['product', 'plan', 'people', '--version', '1.1.0'],
    ]) {
      const { code, err } = await sluice(words)
      assert.equal(code, 1)
      assert.match(err, /output\.yaml:\d+:\d+ .*integr/, words.join(' '))
    }
    await writeFile(file, good)
  })

  it('fails where the server refuses, the connection does not work, or the run fails', async () => {
    assert.match((await sluice(['query', 'DELETE FROM crm.people'])).err, /sql_not_allowed|sql_syntax_error/)
    await writeFile(join(folder, 'wrong.json'), loginOf(world.deployment, { password: 'wrong', user: 'nobody' }))
    await done('connection', 'create', 'wrong', '--config-file', 'wrong.json')
    const test = await sluice(['connection', 'test', 'wrong'])
    assert.equal(test.code, 1)
    assert.match(test.out, /failed/)
    assert.match(test.err, /the connection does not work: database .{60,}\n\S/, 'whole, and with what to do')
    const plain = await sluice(['product', 'list'], 'not-a-token')
    assert.equal(plain.code, 1)
    assert.match(plain.err, /token_/)
    await done('connection', 'delete', 'wrong')
  })

  it('shows runs with their log, and goes back', async () => {
    const runs = await done('logs')
    const id = /^(run_\w+)/m.exec(runs)?.[1]
    assert.ok(id, runs)
    assert.match(await done('logs', id), /succeeded, attempt 1/)
    const anew = await sluice(['product', 'materialize', 'crm.people'])
    assert.deepEqual([anew.code, /tables/.test(anew.err)], [0, false], anew.err)
    assert.match(
      await done('product', 'rollback', 'crm.people', '--version', '1.0.0'),
      /1\.0\.0 is in service[^]*resumed/,
    )
    assert.match(await done('product', 'resume', 'crm.people'), /Done/)
    const unknown = await sluice(['product', 'rollback', 'crm.people', '--version', '9.9.9'])
    assert.match(
      unknown.err,
      /no such version \(version_not_found, 404\)\nTake a version that was in service: the list/,
    )
    assert.match(await done('product', 'snapshots', 'crm.people'), /^epoch +version[^]*1\.0\.0 +30/)
  })

  it('says which check kept which product from being published, with the rows that failed it, and what is served', async () => {
    const quality = `apiVersion: svc/v1
kind: Quality
checks:
  - { name: id_unique, unique: [id] }
  - { name: mail_short, sql: "SELECT id, email FROM {{this}} WHERE length(email) > 9" }
  - { name: cities_few, accepted_values: { column: city, values: [city 1] }, severity: warn }
`
    await writeFile(join(folder, 'people', 'quality.yaml'), quality)
    const kept =
      /crm\.people: failed; nothing was published, because a check of hidden columns failed; epoch \d+ is served as before/
    await sluice(['product', 'deploy', 'people', '--version', '1.1.0'])
    const { code, err } = await sluice(['sync', 'db'])
    assert.deepEqual([code, kept.test(err)], [1, true], err)
    assert.match(err, /crm\.people: mail_short: 21 of 30 rows, first: id=\d+ email=c\d+@c\.test/)
    const shown = await done('quality', 'crm.people')
    assert.match(shown, /^Version 1\.1\.0 was not published at \S+, with a score of [\d.]+\.$/m)
    assert.match(shown, /^check +result +severity +\w+ +\w+\n/m)
    assert.match(shown, /^id_unique +passed +error +0 +30$/m)
    assert.match(shown, /^mail_short +failed +error +21 +30$/m)
    assert.match(shown, /^cities_few +failed +warn +29 +30$/m)
    assert.match(shown, /^mail_short: rows that failed it\nid +email\n\d+ +c\d+@c\.test$/m)
    assert.doesNotMatch(await done('product', 'snapshots', 'crm.people'), /1\.1\.0/, 'what was not published is none')
    const viewer = await world.deployment.token(['--tenant', tenant, '--group', 'svc-viewers', '--user', 'vera'])
    const { out } = await sluice(['quality', 'crm.people'], viewer)
    assert.match(out, /^cities_few: rows that failed it\n/m)
    assert.doesNotMatch(out, /@c\.test|^mail_short/m)
    await done('product', 'rollback', 'crm.people', '--version', '1.0.0')
    await done('product', 'resume', 'crm.people')
  })

  it('lets others read, and takes it back', async () => {
    for (const [words, shown] of [
      [['crm.people', '--team', 'sales', '--unmask', 'pii.identifier,pii.name', '--grantable'], /team sales +unmask/],
      [['--connection', 'db', '--to', 'vito', '--table', 'public.command_people'], /user vito +read +public\./],
    ] as const) {
      const made = await done('grant', 'add', ...words)
      assert.match(made, shown)
      const id = /\b(r?gr?t_\w+)/.exec(made)?.[1] ?? ''
      const place = words[0] === '--connection' ? words.slice(0, 2) : words.slice(0, 1)
      assert.ok((await done('grant', 'list', ...place)).includes(id))
      assert.match(await done('grant', 'remove', ...place, id), /is gone/)
      assert.ok(!(await done('grant', 'list', ...place)).includes(id))
    }
    assert.equal((await sluice(['grant', 'add', 'crm.people'])).code, 2)
  })

  it('changes and removes what is there', async () => {
    await done('connection', 'create', 'other', '--config-file', 'login.json')
    await writeFile(join(folder, 'moved.json'), loginOf(world.deployment, { host: 'localhost' }))
    assert.match(
      await done('connection', 'update', 'other', '--config-file', 'moved.json', '--name', 'next'),
      /^conn.*\nnext /,
    )
    assert.equal((await sluice(['connection', 'update', 'next'])).code, 2)
    await done('connection', 'delete', 'next')
    const { id } = JSON.parse(await done('sync', 'db', '--no-wait', '--json'))
    assert.match(await done('cancel', id), /is (cancelled|queued|running|succeeded)/)
    await done('logs', id, '--follow').catch(() => undefined)
    assert.match((await sluice(['retry', id])).out, /is queued/)
    await done('product', 'delete', 'crm.people')
    assert.doesNotMatch(await done('product', 'list'), /crm\.people/)
  })

  it('shows the configuration without secrets', async () => {
    await writeFile(join(folder, 'sluice.yaml'), 'metrics_token: very-secret\nlimits: { workers: 3 }\n')
    const shown = JSON.parse(await done('config'))
    assert.deepEqual([shown.limits.workers, shown.metrics_token], [3, '********'])
    await rm(join(folder, 'sluice.yaml'))
  })

  it('lets administrators see to tenants', async () => {
    const admin = await world.deployment.token(['--role', 'admin'])
    const list = await sluice(['tenant', 'list'], admin)
    assert.match(list.out, new RegExp(`^${tenant} `, 'm'))
    assert.equal((await sluice(['tenant', 'list'])).code, 1, 'a developer may not')
    assert.match((await sluice(['product', 'list'], admin)).err, /tenant_required[^]*--tenant T/)
    const named = await sluice(['product', 'list', '--tenant', tenant], admin)
    assert.equal(named.code, 0, named.err)
  })
})
