import assert from 'node:assert/strict'
import { it } from 'node:test'
import { everyValue, parseArguments, SWITCHES, UsageError } from './arguments.ts'
import type { Client } from './client.ts'
import {
  type Command,
  type CommandCall,
  checkFlags,
  checkWords,
  findCommand,
  meantCommand,
  REMOTE_FLAGS,
  wordsOf,
} from './command.ts'
import { keyOf } from './erasure-commands.ts'
import { COMMANDS as ALL } from './main.ts'

const command = { usage: '', summary: '', run: async () => undefined } satisfies Command
const names = ['start', 'sync', 'logs', 'query', 'product list', 'product resume', 'tenant create', 'config']
names.push('keys rotate-master')
const COMMANDS = Object.fromEntries(names.map((name) => [name, command]))

it('says which command was probably meant, and nothing where none is alike', () => {
  for (const [words, meant] of [
    [['prodct', 'list'], 'product list'],
    [['product', 'resum', 'sales.orders'], 'product resume'],
    [['snyc', 'warehouse'], 'sync'],
    [['tenants'], 'tenant'],
    [['querry'], 'query'],
    [['keys', 'rotate'], 'keys rotate-master'],
    [['list', 'products'], 'product list'],
    [['product', 'sync'], 'sync'],
    [['keys', 'frobnicate'], null],
    [['frobnicate', 'everything'], null],
    [[], null],
  ] as const) {
    assert.equal(meantCommand(COMMANDS, words), meant, words.join(' '))
  }
})

const check = (line: string): string => {
  const args = parseArguments(line.split(' '))
  const { command, name, rest } = findCommand(ALL, args.words) as NonNullable<ReturnType<typeof findCommand>>
  try {
    checkFlags(command, args, ['data-dir'])
    checkWords(command, name, rest)
    return ''
  } catch (error) {
    assert.ok(error instanceof UsageError)
    return error.message
  }
}

it('does nothing where words or flags are left over, cut off, or there twice', () => {
  for (const [line, said] of [
    ['tenant list extra', /^"extra" is a word too many/],
    ['query SELECT 1', /^"1" is a word too many; what holds blanks belongs in quotes/],
    ['product delete a.b c.d', /^"c\.d" is a word too many/],
    ['tenant list -v', /^"-v" is a word too many/],
    ['token --tenant --group x --user y', /^--tenant needs a value/],
    ['sync db --no-wiat', /^--no-wiat is not known; did you mean --no-wait\?/],
    ['grant add a.b --too x', /^--too is not known; did you mean --to\?/],
    ['query x --output', /^--output needs a value/],
    ['query x --as-of=--1', /^$/],
    ['query -- --a', /^$/],
    ['config --explain limits', /^$/],
    ['grant remove --connection db rgt_1', /^$/],
    ['connection update db --every 15m --no-schedule', /^$/],
    ['lake check crm.people', /^$/],
    ['logs', /^$/],
    ['config --explain limits --data-dir a --data-dir b', /^--data-dir is there twice/],
    ['erase db s.t --key a=1 --key b=2 --key c=3', /^$/],
    ['erase db s.t --key a=1 --tenant x --tenant y', /^--tenant is there twice/],
  ] as const) {
    assert.match(check(line), said, line)
  }
  assert.throws(() => parseArguments(['x', '--json=perhaps']), /--json takes no value/)
  assert.deepEqual(parseArguments(['x', '--json=false']).flags, {})
})

it('takes a key of several columns as a flag for each, or as one JSON object', () => {
  const { keyed, refused } = {
    keyed: [
      [['id=7'], { id: '7' }],
      [['id=7', 'day=2026-01-02'], { id: '7', day: '2026-01-02' }],
      [['a=b=c', 'b='], { a: 'b=c', b: '' }],
      [['{"id": 7, "day": "x"}'], { id: 7, day: 'x' }],
      [['__proto__=1', 'id={"a":1}'], JSON.parse('{"__proto__":"1","id":"{\\"a\\":1}"}')],
    ] as const,
    refused: [
      [],
      [''],
      ['id'],
      ['=7'],
      ['id=secret', 'day'],
      ['{"id": secret'],
      ['{"id":1}', 'day=2'],
      ['id=1', 'id=secret'],
    ],
  }
  for (const [given, key] of keyed) assert.deepEqual(keyOf(given), key)
  for (const given of refused) {
    assert.throws(
      () => keyOf(given),
      (error: Error) => error instanceof UsageError && !error.message.includes('secret'),
    )
  }
  const args = parseArguments(['erase', '--key=a=1', '--key', 'b=2', '--key', 'c=3'])
  assert.deepEqual(everyValue(args, 'key'), ['a=1', 'b=2', 'c=3'])
  assert.deepEqual(everyValue(args, 'none'), [])
})

it('knows of each command how many words it takes, by its usage', () => {
  const counts = Object.entries(ALL).map(([name, { usage }]) => [name, wordsOf(usage, name)])
  for (const [name, { usage }] of Object.entries(ALL)) assert.ok(usage.startsWith(name), name)
  const several = counts.filter(([, count]) => count !== 1 && count !== 0)
  assert.deepEqual(several, [
    ['quarantine list', 2],
    ['quarantine replay', Number.POSITIVE_INFINITY],
    ['quarantine discard', Number.POSITIVE_INFINITY],
    ['erase', 2],
    ['dbt import', 2],
    ['grant remove', 2],
    ['webhook create', 2],
    ['webhook show', 2],
    ['webhook pause', 2],
    ['webhook resume', 2],
    ['webhook redeliver', 2],
    ['webhook test', 2],
    ['webhook dead-letters', 2],
    ['webhook delete', 2],
    ['backfill', Number.POSITIVE_INFINITY],
    ['client generate', Number.POSITIVE_INFINITY],
    ['lake', 2],
  ])
  const none = counts.filter(([, count]) => count === 0).map(([name]) => name)
  for (const name of ['start', 'token', 'tenant list', 'product list', 'application-key list', 'notification list']) {
    assert.ok(none.includes(name), name)
  }
  assert.equal(none.length, 10, none.join(', '))
})

it('has no flag of a command that means something else in every other', () => {
  for (const [name, { flags = {}, remote }] of Object.entries(ALL)) {
    const twice = remote ? Object.keys(flags).filter((flag) => flag in REMOTE_FLAGS) : []
    assert.deepEqual(twice, [], name)
  }
})

/** What a server might answer to anything. */
const ANSWER = {
  id: 'x',
  state: 'succeeded',
  tables: [],
  products: [],
  data: [],
  checks: [],
  next: null,
  tables_seen: 0,
  revoked: [],
  resealed_secrets: 1,
  rewrapped_keys: 1,
  log: [],
  notes: [],
  subject: { user: 'x' },
  grantable: false,
  operations: [],
  unmask: [],
  expires_at: '2026-01-01T00:00:00Z',
}

it('says with --json what the server answered, whatever the command', async () => {
  const client = { request: async () => ANSWER, list: async () => [], find: async () => ANSWER } as unknown as Client
  // They read files first, or write what they say themselves.
  const others = [
    'connection create',
    'connection update',
    'connection test',
    'product init',
    'product export',
    'product plan',
    'product deploy',
    'apply',
    'dev',
    'drift',
    'query',
    'training-set',
    'export-rows',
    'client generate',
  ]
  const remote = Object.entries(ALL).filter(([name, { remote }]) => remote && !others.includes(name))
  assert.ok(remote.length > 25)
  for (const [name, one] of remote) {
    const flags = {
      json: 'true',
      confirm: 'x',
      tier: 'free',
      to: 'x',
      key: name === 'erase' ? 'id=7' : 'x',
      ...(name.endsWith('rollback') ? { version: '1' } : {}),
      ...(name === 'service-password create' ? { team: 'x' } : {}),
    }
    const asked = { lake: ['check'], impact: ['x.y'] }[name]
    const words = asked ?? ['x', 'y'].slice(0, wordsOf(one.usage, name))
    const call = { words, args: { words, flags }, client: async () => client } as unknown as CommandCall
    const said = await one.run(call)
    const text = typeof said === 'string' ? said : JSON.stringify(said)
    assert.doesNotThrow(() => JSON.parse(text), `${name}: ${text}`)
  }
})

it('takes no value for switches that its help shows', () => {
  const shown = Object.values(ALL).flatMap(({ flags = {} }) => Object.keys(flags))
  for (const name of SWITCHES) assert.ok(['help', 'json', ...shown].includes(name), name)
})
