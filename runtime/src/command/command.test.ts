import assert from 'node:assert/strict'
import { it } from 'node:test'
import { type Command, meantCommand } from './command.ts'

const command = { usage: '', summary: '', run: async () => undefined } satisfies Command
const names = ['start', 'sync', 'logs', 'query', 'product list', 'product resume', 'tenant create', 'config']
const COMMANDS = Object.fromEntries(names.map((name) => [name, command]))

it('says which command was probably meant, and nothing where none is alike', () => {
  for (const [words, meant] of [
    [['prodct', 'list'], 'product list'],
    [['product', 'resum', 'sales.orders'], 'product resume'],
    [['snyc', 'warehouse'], 'sync'],
    [['tenants'], 'tenant'],
    [['querry'], 'query'],
    [['frobnicate', 'everything'], null],
    [[], null],
  ] as const) {
    assert.equal(meantCommand(COMMANDS, words), meant, words.join(' '))
  }
})
