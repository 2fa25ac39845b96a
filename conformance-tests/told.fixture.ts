/** A failure as its author reads it, which has every part. */
import assert from 'node:assert/strict'
import { Redactor } from './redaction.ts'
import { replayCommand } from './replay.ts'
import { failureLines, recordedCheck } from './run-record.ts'
import type { CheckResult } from './suite.ts'

/** As the command prints it. */
export function told(result: CheckResult | undefined): string {
  assert.equal(result?.status, 'failed')
  const again = (check: string) => replayCommand({ plugin: './store', level: 'core', seed: 7 }, [check])
  const { failure } = recordedCheck(result, new Redactor(), again)
  assert.ok(failure)
  const text = failureLines(failure).join('\n')
  for (const part of ['expected', 'where', 'why', 'remedy', 'replay'])
    assert.match(text, new RegExp(`^  ${part}: +\\S`, 'm'), `${result.name}: ${text}`)
  assert.ok(text.includes(`npx sluice-conformance ./store --level core --seed 7 --only ${result.name}`), text)
  return text
}
