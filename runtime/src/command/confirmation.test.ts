import assert from 'node:assert/strict'
import { PassThrough } from 'node:stream'
import { test } from 'node:test'
import { askingAt, type Confirmation, confirmed } from './confirmation.ts'

const WANTED: Confirmation = {
  question: 'Do it? ',
  answers: ['y', 'yes'],
  flag: 'yes',
  does: 'does it without asking',
  plan: 'check',
}

function terminal(isTTY: boolean) {
  const input = Object.assign(new PassThrough(), { isTTY })
  const output = Object.assign(new PassThrough(), { isTTY })
  return { input, output, asking: askingAt(input, output) }
}

test('a question is answered by what was typed, and by nothing else', async () => {
  for (const [typed, isYes] of [
    ['y\n', true],
    [' YES \n', true],
    ['\n', false],
    ['yess\n', false],
    ['', false],
  ] as const) {
    const { input, output, asking } = terminal(true)
    input.end(typed)
    assert.equal(await confirmed(asking, WANTED), isYes, JSON.stringify(typed))
    assert.match(String(output.read()), /Do it\? /)
  }
})

test('without a terminal nobody is asked, and a flag is named', async () => {
  const { input, asking } = terminal(false)
  input.end('y\n')
  await assert.rejects(confirmed(asking, WANTED), (error: Error & { remedy?: string }) => {
    assert.match(`${error.message} ${error.remedy}`, /no terminal to ask on.*--check.*--yes does it without asking/)
    return true
  })
})
