/** A run as one page for people: no script, nothing loaded from elsewhere. */
import { escapedXml as escaped, secondsOf } from './report.ts'
import { countsOf, failureLines, type RecordedCheck, type RunRecord } from './run-record.ts'

const STYLE = `
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 60rem; padding: 0 1rem; color: #1c2430; background: #fff }
h1 { font-size: 1.4rem } table { border-collapse: collapse; width: 100% }
td, th { text-align: left; padding: .35rem .6rem; border-bottom: 1px solid #e3e7ee; vertical-align: top }
td:first-child, td:last-child { white-space: nowrap } pre { white-space: pre-wrap; margin: .3rem 0; font-size: .85rem }
.failed { background: #fdecea } .waived { background: #fff6dd } .not_applicable, .reason { color: #66707f }
@media (prefers-color-scheme: dark) { body { color: #dfe5ee; background: #14181f } td, th { border-color: #2b3340 }
.failed { background: #47211f } .waived { background: #463a15 } .not_applicable, .reason { color: #94a0b2 } }
`

export function htmlReport(run: RunRecord): string {
  const { plugin, version, level, seed, sdk, suite, checks, killRate, capabilities, key } = run
  const counts = Object.entries(countsOf(checks)).map(([status, count]) => `${count} ${status.replace('_', ' ')}`)
  const facts = [
    ['plugin', `${plugin} ${version}`],
    ['date', run.date],
    ...(run.server === undefined ? [] : [['tried on', run.server]]),
    ['level and seed', `${level}, ${seed}`],
    ['SDK and suite', `${sdk}, ${suite}`],
    ['checks', counts.join(', ')],
    ['time', secondsOf(run.elapsedMs)],
    ...(capabilities
      ? [
          ['capabilities on', capabilities.on.join(', ') || 'none'],
          ['capabilities off', capabilities.off.join(', ') || 'none'],
        ]
      : [['capabilities', 'nothing is said of them: a part of a level was run']]),
    ...(key ? [['signed by', [key.name, key.signer].filter(Boolean).join(', ')]] : []),
    ['again', run.replay],
    ...(killRate ? [['defective stores caught', `${killRate.caught} of ${killRate.of}`]] : []),
    ...(run.measurements ?? []).map((one) => [
      `${one.name}, median and 99th percentile`,
      `${one.p50Ms} ms, ${one.p99Ms} ms`,
    ]),
  ]
  return [
    '<!doctype html>',
    '<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">',
    `<title>${escaped(plugin)}: conformance</title><style>${STYLE}</style></head><body>`,
    `<h1>${escaped(plugin)}: ${countsOf(checks).failed === 0 ? 'conforms' : 'does not conform'}</h1>`,
    `<table>${facts.map(([name = '', text = '']) => `<tr><th>${escaped(name)}</th><td>${escaped(text)}</td></tr>`).join('\n')}</table>`,
    '<h2>Checks</h2><table><tr><th>No.</th><th>Check</th><th>Outcome</th><th>Time</th></tr>',
    ...failedFirst(checks).map(row),
    '</table></body></html>',
    '',
  ].join('\n')
}

function failedFirst(checks: readonly RecordedCheck[]): readonly RecordedCheck[] {
  return [...checks.filter(({ status }) => status === 'failed'), ...checks.filter(({ status }) => status !== 'failed')]
}

function row({ id, name, status, reason, failure, elapsedMs }: RecordedCheck): string {
  const why = reason === undefined ? '' : ` <span class="reason">${escaped(reason)}</span>`
  const text = failure === undefined ? '' : `<pre>${escaped(failureLines(failure).join('\n'))}</pre>`
  return `<tr class="${status}"><td>${id}</td><td>${escaped(name)}${why}${text}</td><td>${status.replace('_', ' ')}</td><td>${secondsOf(elapsedMs)}</td></tr>`
}
