import { testServingStore } from '@sluice/conformance'
import * as fixture from './conformance.ts'
import plugin from './index.ts'

/** As many schedules as a minute takes; `sluice-conformance --level hard` runs all of them. */
const knobs = { schedules: { hard: 1000 } }

testServingStore({ plugin, ...fixture, knobs, level: 'hard' })
