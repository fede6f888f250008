// SPDX-License-Identifier: GPL-2.0
/* Errors that Coccinelle has to report, before it is believed that the module has none (checks.sh). Never built. */
#include <linux/mutex.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

struct thing {
	int value;
	struct mutex lock;
};

int used_after_free(struct thing *thing, const void __user *from, unsigned int count)
{
	char *bytes = kzalloc(count, GFP_KERNEL);

	mutex_lock(&thing->lock);
	if (copy_from_user(bytes, from, count))
		return -EFAULT;	/* locked, and not freed */
	mutex_unlock(&thing->lock);
	kfree(bytes);
	return bytes[0];
}

int missing(struct thing *thing)
{
	if (!thing)
		pr_info("%d\n", thing->value);
	return 0;
}

int negative(struct thing *thing)
{
	unsigned int value = thing->value;

	return value < 0;
}
