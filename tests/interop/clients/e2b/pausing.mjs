// pausing.mjs - sandboxes are paused and go on.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { e2b } from './kit.mjs'

const { Sandbox } = e2b

test('the same processes go on', async () => {
  const made = await Sandbox.create({ timeoutMs: 100000 })
  try {
    const handle = await made.commands.run('echo $$; read line; echo got $line', { background: true, stdin: true })
    await made.files.write('kept', 'kept')
    const pause = (made.pause ?? made.betaPause).bind(made)
    assert.ok(await pause())
    assert.equal(await made.isRunning(), false)
    assert.equal((await Sandbox.getInfo(made.sandboxId)).state, 'paused')
    assert.equal(await pause(), false)
    const again = await Sandbox.connect(made.sandboxId)
    assert.equal((await Sandbox.getInfo(made.sandboxId)).state, 'running')
    assert.equal(await again.files.read('kept'), 'kept')
    assert.ok((await again.commands.list()).some((one) => one.pid === handle.pid))
    const found = await again.commands.connect(handle.pid)
    await again.commands.sendStdin(handle.pid, 'word\n')
    assert.equal((await found.wait()).stdout, 'got word\n')
  } finally {
    await made.kill()
  }
})
