import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { Registry } from 'prom-client'
import { PluginMetrics } from './plugin-metrics.ts'

function fixture() {
  const registry = new Registry()
  const metrics = new PluginMetrics(registry)
  const lines = async () =>
    (await registry.metrics()).split('\n').filter((line) => line !== '' && !line.startsWith('#'))
  return { metrics, lines }
}

describe('metrics of plugins', () => {
  it('are counted by plugin and label', async () => {
    const { metrics, lines } = fixture()
    const [lookup, realtime] = [metrics.of('lookup-postgresql'), metrics.of('realtime-lmdb')]
    lookup.count('rows', 3, { mode: 'full' })
    lookup.count('rows', 2, { mode: 'full' })
    realtime.count('rows')
    assert.deepEqual(await lines(), [
      'sluice_plugin_rows_total{plugin="lookup-postgresql",mode="full"} 5',
      'sluice_plugin_rows_total{plugin="realtime-lmdb",mode=""} 1',
    ])
  })

  it('are measured in a histogram', async () => {
    const { metrics, lines } = fixture()
    metrics.of('a').observe('seconds', 0.2)
    assert.ok((await lines()).includes('sluice_plugin_seconds_sum{plugin="a"} 0.2'))
    assert.ok((await lines()).includes('sluice_plugin_seconds_count{plugin="a"} 1'))
  })

  it('do not grow without bounds', async () => {
    const { metrics, lines } = fixture()
    const own = metrics.of('a')
    for (let index = 0; index < 1000; index += 1) own.count('reads', 1, { key: `k${index}` })
    const reads = await lines()
    assert.equal(reads.length, 201)
    assert.ok(reads.includes('sluice_plugin_reads_total{plugin="a",key="other"} 800'))
    for (let index = 0; index < 1000; index += 1) own.count(`name_${index}`)
    assert.equal((await lines()).length, 201 + 99)
  })

  it('leave out what has no valid name, label or value, and never throw', async () => {
    const { metrics, lines } = fixture()
    const own = metrics.of('a')
    own.count('Bad-Name')
    own.count('nan', Number.NaN)
    own.count('back', -1)
    own.count('good', 1, { 'bad-label': 'x', plugin: 'forged', le: '1' })
    own.observe('good_total', 1)
    own.count('good_total', 1)
    assert.deepEqual(await lines(), ['sluice_plugin_good_total{plugin="a"} 2'])
  })
})
